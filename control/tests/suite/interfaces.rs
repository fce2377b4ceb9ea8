//! Tests real interfaces in a test namespace: set up without addresses, watched, and never set up
//! after an administrator set them down.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Stdio},
    time::Duration,
};

use covalent_api::control::{ControlReply, ControlRequest, InterfaceStatus};
use covalent_control::{control::Control, interfaces::Interfaces};
use covalent_ebpf::{AttachMode, Steering};
use rtnetlink::{Handle, LinkUnspec, LinkVeth, packet_route::link::LinkAttribute};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};

use crate::{
    agreement::{Played, held, verdict},
    client::{self, PCAP_PORT, config, get},
    fake::{PATIENCE, listen},
    namespace::{add_veth, addresses, in_namespace, index, set_down, set_up},
};

const AF_XDP_PORT: &str = "[[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"v0\"\n";

/// Control in the namespace, and the state of its only interface.
struct Running {
    directory: tempfile::TempDir,
    interfaces: watch::Receiver<Interfaces>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn start(toml: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let control = Control::start(&config(directory.path(), toml))
            .await
            .expect("starts");
        let interfaces = control.interfaces();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(async {
            control
                .run(async { drop(stopped.await) })
                .await
                .expect("serves")
        });
        Self {
            directory,
            interfaces,
            stop,
            served,
        }
    }

    async fn wait_for(&mut self, what: &str, mut wanted: impl FnMut(&InterfaceStatus) -> bool) {
        let found = timeout(
            PATIENCE,
            self.interfaces
                .wait_for(|table| wanted(&table.statuses()[0])),
        )
        .await;
        assert!(
            found.is_ok_and(|found| found.is_ok()),
            "never {what}: {:?}",
            self.interfaces.borrow()
        );
    }

    async fn stop(self) {
        drop(self.stop);
        timeout(PATIENCE, self.served)
            .await
            .expect("ends in time")
            .expect("ends without a panic");
    }
}

async fn is_up(handle: &Handle, name: &str) -> bool {
    let index = index(handle, name).await.expect("exists");
    let mut links = handle.link().get().match_index(index).execute();
    let link = futures::TryStreamExt::try_next(&mut links)
        .await
        .expect("rtnetlink")
        .expect("exists");
    link.header
        .flags
        .contains(rtnetlink::packet_route::link::LinkFlags::Up)
}

#[test]
fn an_interface_is_set_up_without_any_address_and_left_up() {
    in_namespace(async |handle| {
        add_veth(&handle, "v0", "v1").await;
        let (ours, other) = (
            index(&handle, "v0").await.expect("v0"),
            index(&handle, "v1").await.expect("v1"),
        );
        let mut control = Running::start(AF_XDP_PORT).await;
        control
            .wait_for("set up by control", |it| {
                it.admin_up && it.brought_up && it.index == Some(ours)
            })
            .await;
        set_up(&handle, other).await;
        control
            .wait_for("with a carrier", |it| it.carrier && it.mtu_bytes == 1500)
            .await;
        // The kernel assigns the other end its link-local address at once, if it has IPv6. Our end
        // never gets one.
        for _ in 0..20 {
            if addresses(&handle, other).await > 0 {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(addresses(&handle, ours).await, 0);
        control.stop().await;
        assert!(
            is_up(&handle, "v0").await,
            "its end does not cut the dataplane's link"
        );
    });
}

#[test]
fn an_interface_set_down_stays_down_and_a_new_one_is_set_up() {
    in_namespace(async |handle| {
        let mut control = Running::start(AF_XDP_PORT).await;
        control
            .wait_for("absent", |it| it.index.is_none() && !it.admin_up)
            .await;
        add_veth(&handle, "v0", "v1").await;
        control
            .wait_for("set up when it appeared", |it| it.admin_up && it.brought_up)
            .await;

        let first = index(&handle, "v0").await.expect("v0");
        set_down(&handle, first).await;
        control.wait_for("seen down", |it| !it.admin_up).await;
        sleep(Duration::from_millis(200)).await;
        assert!(!is_up(&handle, "v0").await, "it was set down on purpose");
        set_up(&handle, first).await;
        control.wait_for("seen up", |it| it.admin_up).await;

        handle.link().del(first).execute().await.expect("removed");
        control.wait_for("gone", |it| it.index.is_none()).await;
        add_veth(&handle, "v0", "v1").await;
        control
            .wait_for("set up again", |it| it.admin_up && it.brought_up)
            .await;
        control.stop().await;
    });
}

#[test]
fn no_interface_is_touched_if_it_is_up_or_if_so_configured() {
    in_namespace(async |handle| {
        add_veth(&handle, "v0", "v1").await;
        let toml = format!("bring_up = false\n{AF_XDP_PORT}");
        let mut control = Running::start(&toml).await;
        control.wait_for("seen", |it| it.index.is_some()).await;
        sleep(Duration::from_millis(100)).await;
        assert!(!is_up(&handle, "v0").await);
        control.stop().await;

        set_up(&handle, index(&handle, "v0").await.expect("v0")).await;
        let mut control = Running::start(AF_XDP_PORT).await;
        control.wait_for("seen", |it| it.admin_up).await;
        sleep(Duration::from_millis(100)).await;
        assert!(!control.interfaces.borrow().statuses()[0].brought_up);
        control.stop().await;
    });
}

#[test]
fn without_the_privilege_the_log_names_it_and_the_alternative() {
    in_namespace(async |handle| {
        add_veth(&handle, "v0", "v1").await;
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777))
            .expect("open to all");
        let file = directory.path().join("covalent.toml");
        fs::write(
            &file,
            config(directory.path(), AF_XDP_PORT)
                .to_toml()
                .expect("UTF-8"),
        )
        .expect("written");
        let binary = directory.path().join("covalent-control");
        // From another process: a descriptor of this one, open for writing, would be inherited by
        // a process that another test starts, and until its `exec` the copy could not run.
        let copied = Command::new("install")
            .args([env!("CARGO_BIN_EXE_covalent-control").as_ref(), &*binary])
            .status();
        assert!(copied.expect("`install` of coreutils").success());
        let mut child = Command::new(&binary)
            .arg("--config")
            .arg(&file)
            .uid(65534)
            .gid(65534)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped"))
            .lines()
            .map_while(Result::ok);
        // Before any complaint: drivers can be queried and followed without privilege.
        let mut query_refused = None;
        let complaint = lines.find(|line| {
            if line.contains("are unknown") {
                query_refused = Some(line.clone());
            }
            line.contains("CAP_NET_ADMIN")
        });
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(query_refused, None);
        let complaint = complaint.expect("a line about the privilege");
        for part in ["v0", "control.bring_up = false", "ip link set v0 up"] {
            assert!(complaint.contains(part), "no `{part}` in {complaint}");
        }
    });
}

/// A veth pair with four queues per end. The kernel uses as many as there are cores.
async fn add_wide_veth(handle: &Handle) -> u32 {
    let veth = LinkVeth::new("v0", "v1")
        .append_extra_attribute(LinkAttribute::NumRxQueues(4))
        .append_extra_attribute(LinkAttribute::NumTxQueues(4))
        .build();
    handle
        .link()
        .add(veth)
        .execute()
        .await
        .expect("a veth pair");
    index(handle, "v0").await.expect("v0")
}

#[test]
fn changes_of_an_interfaces_properties_are_followed() {
    in_namespace(async |handle| {
        let ours = add_wide_veth(&handle).await;
        let mut control = Running::start(AF_XDP_PORT).await;
        control
            .wait_for("described", |it| {
                it.driver.as_deref() == Some("veth")
                    && it.address.is_some()
                    && it.channels.is_some_and(|channels| channels.rx_max == 4)
                    && it.features.is_some()
            })
            .await;
        let other = LinkUnspec::new_with_index(ours)
            .mtu(1600)
            .address(vec![2, 0, 0, 0, 0, 9])
            .build();
        handle.link().set(other).execute().await.expect("changed");
        control
            .wait_for("seen with another MTU and address", |it| {
                it.mtu_bytes == 1600 && it.address.as_deref() == Some("02:00:00:00:00:09")
            })
            .await;

        let (connection, mut ethtool, _) = ethtool::new_connection().expect("netlink");
        tokio::spawn(connection);
        for count in [3, 1] {
            let change = ethtool.channel().set("v0").rx_count(count).tx_count(count);
            change.execute().await.expect("a veth can");
            control
                .wait_for("seen with other channels", |it| {
                    it.channels
                        .is_some_and(|channels| (channels.rx, channels.tx) == (count, count))
                })
                .await;
        }
        for on in [true, false] {
            if !set_feature("v0", "rxvlan", on) {
                break;
            }
            control
                .wait_for("seen with another feature", |it| {
                    let names = it.features.as_deref().unwrap_or_default();
                    names.iter().any(|name| name == "rx-vlan-hw-parse") == on
                })
                .await;
        }

        // Another one of the same name.
        handle.link().del(ours).execute().await.expect("removed");
        control
            .wait_for("removed with all known facts", |it| {
                it.index.is_none() && it.driver.is_none() && it.channels.is_none()
            })
            .await;
        add_wide_veth(&handle).await;
        control
            .wait_for("described anew", |it| {
                it.mtu_bytes == 1500 && it.channels.is_some_and(|channels| channels.rx_max == 4)
            })
            .await;
        control.stop().await;
    });
}

/// Sets a feature with the program `ethtool`, because its crate cannot. Returns whether that
/// program exists.
fn set_feature(interface: &str, feature: &str, on: bool) -> bool {
    let state = if on { "on" } else { "off" };
    match Command::new("ethtool")
        .args(["-K", interface, feature, state])
        .status()
    {
        Ok(status) => {
            assert!(status.success(), "ethtool -K {interface} {feature} {state}");
            true
        }
        Err(_) => {
            crate::namespace::skip("changing a feature needs the program ethtool");
            false
        }
    }
}

/// The kernel sends no notification about a program that is attached or detached through a BPF
/// link, so control queries it on request.
#[test]
fn every_request_sees_an_attached_xdp_program() {
    in_namespace(async |handle| {
        add_veth(&handle, "v0", "v1").await;
        let ours = index(&handle, "v0").await.expect("v0");
        let mut control = Running::start(AF_XDP_PORT).await;
        control
            .wait_for("there", |it| it.index == Some(ours) && it.admin_up)
            .await;
        let socket = control.directory.path().join("control.sock");
        let programs = async || {
            let socket = socket.clone();
            let query = move || client::send_request(&socket, &ControlRequest::Interfaces);
            let reply = tokio::task::spawn_blocking(query).await.expect("answered");
            let ControlReply::Interfaces { interfaces } = reply else {
                panic!("{reply:?}");
            };
            interfaces[0].programs.clone()
        };
        assert_eq!(programs().await, []);
        let mut program = Steering::load().expect("root");
        program
            .attach(ours, "v0", AttachMode::Generic)
            .expect("attached");
        let attached = programs().await;
        assert_eq!(attached.len(), 1, "{attached:?}");
        assert_eq!(attached[0].mode, "generic");
        let known = covalent_ebpf::attached_programs(ours).expect("asked");
        assert_eq!(known[0].id, attached[0].id);
        drop(program);
        assert_eq!(programs().await, []);
        control.stop().await;
    });
}

/// Control follows exactly the interfaces of the configuration in force.
#[test]
fn a_reload_brings_and_takes_interfaces() {
    in_namespace(async |handle| {
        add_veth(&handle, "v0", "v1").await;
        let directory = tempfile::tempdir().expect("a directory");
        let with = |ports: &str| {
            let config = config(directory.path(), ports);
            (config.to_toml().expect("UTF-8"), config)
        };
        let (bare, started) = with(PCAP_PORT);
        let (more, _) = with(AF_XDP_PORT);
        let file = directory.path().join("node.toml");
        fs::write(&file, &bare).expect("written");
        let listener = listen(&directory.path().join("covalentd.sock"));
        let control = Control::start_from(&started, Some(&file))
            .await
            .expect("starts");
        let (address, mut interfaces) = (control.metrics_address(), control.interfaces());
        let agreement = control.agreement().expect("it has a file");
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(control.run(async { drop(stopped.await) }));
        let before = held(1, 0, &bare);
        let text = bare.clone();
        let greeted = tokio::task::spawn_blocking(move || {
            let played = Played::greet(&listener);
            Played::announce(&played.talk, before);
            Played::announce_text(&played.talk, before, &text);
            (listener, played)
        });
        let (_listener, mut played) = greeted.await.expect("it greets");
        for (epoch, text) in [(1, &more), (2, &bare)] {
            fs::write(&file, text).expect("written");
            let reload = tokio::spawn({
                let agreement = agreement.clone();
                async move { agreement.reload().await }
            });
            let text = text.clone();
            let taken = tokio::task::spawn_blocking(move || {
                let (offered, ..) = Played::receive_proposal(&played.talk);
                assert_eq!(offered, text);
                let held = held(1, epoch, &text);
                played.talk.send_reply(&verdict(held, None, Vec::new()));
                played
            });
            played = taken.await.expect("it takes");
            reload.await.expect("it is reported");
            let follows = |table: &Interfaces| match table.statuses() {
                [it] => epoch == 1 && it.brought_up && it.admin_up,
                others => epoch == 2 && others.is_empty(),
            };
            let found = timeout(PATIENCE, interfaces.wait_for(follows)).await;
            assert!(found.is_ok_and(|found| found.is_ok()), "after {epoch}");
            let page = tokio::task::spawn_blocking(move || get(address, "/metrics").1);
            let page = page.await.expect("it serves");
            assert_eq!(
                page.contains("covalent_control_interface_up{"),
                epoch == 1,
                "{page}"
            );
        }
        assert!(is_up(&handle, "v0").await, "it remains up");
        drop(stop);
        served.await.expect("no panic").expect("it ends");
    });
}
