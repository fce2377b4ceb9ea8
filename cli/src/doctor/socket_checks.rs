//! The node's sockets, and the users that can reach them.

use covalent_config::Config;

use super::{
    facts::{Named, NamedSocket, SocketState, socket::Step},
    finding::Finding,
};

/// Returns the finding for a socket's path.
pub fn socket(socket: &NamedSocket) -> Finding {
    let NamedSocket {
        what, path, state, ..
    } = socket;
    let check = format!("{what} {path}");
    match state {
        SocketState::Absent => Finding::fine(check, "free"),
        SocketState::Answers => Finding::fine(check, "a process answers: this node is running"),
        SocketState::Stale => Finding::warning(
            check,
            "no process answers: its process was killed. Its shared memory was freed with it",
            format!("nothing: the next start replaces it; `rm {path}` removes it"),
        ),
        SocketState::NotASocket => Finding::failed(
            check,
            "there is something that is not a socket",
            format!("mv {path} {path}.old, or choose another place in the configuration"),
        ),
        SocketState::Held => Finding::fine(
            check,
            "held by systemd, which starts covalentd at the first connection",
        ),
        SocketState::Forbidden if socket.is_of_daemons => {
            Finding::fine(check, "not for this user: the daemons meet there")
        }
        // The finding for the daemon that listens there has the remedy.
        SocketState::Forbidden if socket.is_for_applications => {
            Finding::fine(check, "a process listens, but not for this user")
        }
        SocketState::Forbidden => Finding::failed(
            check,
            "this user may not connect",
            "as root: `ls -l` shows who may connect; an application needs to be a member of \
             node.group and no capability",
        ),
    }
}

/// The group that may attach: whether it exists, and its members get to the socket.
pub fn group(config: &Config, named: &Named) -> Finding {
    const CHECK: &str = "group";
    let group = &config.node.group;
    if group.is_empty() {
        return Finding::fine(
            CHECK,
            "none: only root and the daemon's own user may attach",
        );
    }
    let Some(gid) = named.group else {
        return Finding::failed(
            CHECK,
            format!("node.group = \"{group}\", but there is no such group"),
            format!("groupadd --system {group}"),
        );
    };
    let entrances = named.sockets.iter().filter(|it| it.is_for_applications);
    let shut = entrances
        .flat_map(|it| &it.steps)
        .find(|step| !step.admits(gid));
    match shut {
        None => Finding::fine(
            CHECK,
            format!("members of {group} may attach, and need no capability"),
        ),
        Some(step) => closed_to(group, step),
    }
}

/// Returns the finding for a path component that keeps group members from the socket.
fn closed_to(group: &str, step: &Step) -> Finding {
    let Step {
        path,
        mode,
        uid,
        gid,
        is_directory,
    } = step;
    let (what, cure) = if *is_directory {
        ("directory", format!("chmod a+x {path}"))
    } else {
        (
            "socket",
            format!("chgrp {group} {path} && chmod 660 {path}"),
        )
    };
    Finding::failed(
        "group",
        format!(
            "members of {group} do not get past the {what} {path} (mode {mode:04o}, owner {uid}, \
             group {gid})"
        ),
        cure,
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    fn sample(state: SocketState, steps: Vec<Step>) -> NamedSocket {
        NamedSocket {
            what: "socket".into(),
            path: "/run/covalent/covalentd.sock".into(),
            state,
            is_for_applications: true,
            is_of_daemons: false,
            steps,
        }
    }

    #[test]
    fn the_object_at_a_sockets_path_is_judged() {
        for (state, level) in [
            (SocketState::Absent, Level::Fine),
            (SocketState::Held, Level::Fine),
            (SocketState::Answers, Level::Fine),
            (SocketState::Stale, Level::Warning),
            (SocketState::NotASocket, Level::Failed),
            (SocketState::Forbidden, Level::Fine),
        ] {
            assert_eq!(socket(&sample(state, Vec::new())).level, level, "{state:?}");
        }
    }

    #[test]
    fn a_group_must_exist_and_get_to_the_socket() {
        let mut config = samples::cable_config();
        let step = |path: &str, mode, is_directory| Step {
            path: path.into(),
            mode,
            uid: 0,
            gid: 0,
            is_directory,
        };
        let named = |group, directory, socket| Named {
            group,
            sockets: vec![sample(
                SocketState::Answers,
                vec![
                    step("/run/covalent", directory, true),
                    step("/run/covalent/covalentd.sock", socket, false),
                ],
            )],
            ..Named::default()
        };
        assert_eq!(
            group(&config, &named(None, 0o700, 0o600)).level,
            Level::Fine
        );
        config.node.group = "covalent".into();
        assert_eq!(
            group(&config, &named(None, 0o755, 0o666)).cure,
            "groupadd --system covalent"
        );
        assert_eq!(
            group(&config, &named(Some(7), 0o755, 0o666)).level,
            Level::Fine
        );
        let directory = group(&config, &named(Some(7), 0o700, 0o666));
        assert_eq!(directory.level, Level::Failed);
        assert_eq!(directory.cure, "chmod a+x /run/covalent");
        let socket = group(&config, &named(Some(7), 0o755, 0o660));
        assert_eq!(
            socket.cure,
            "chgrp covalent /run/covalent/covalentd.sock && chmod 660 /run/covalent/covalentd.sock"
        );
        assert!(socket.found.contains("mode 0660"), "{socket:?}");
    }
}
