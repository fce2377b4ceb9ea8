//! A private file system for a test: ext4 in a file. It can be frozen like a disk that completes no
//! request.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::geteuid,
};

const IMAGE_BYTES: u64 = 64 << 20;

/// A mounted file system. It is visible only to the thread that created it and to the processes
/// that this thread starts.
pub struct LoopDisk {
    path: PathBuf,
}

/// A disk that completes no request until this is dropped.
pub struct Frozen {
    helper: Child,
}

/// Runs `test` on a thread in a mount namespace, with a directory and a file system in it. Without
/// root or loop devices: skipped, with a word.
pub fn with_loop_disk(test: impl FnOnce(&Path, &LoopDisk) + Send) {
    let run = || {
        let dir = tempfile::tempdir().expect("a directory");
        match LoopDisk::mount(dir.path()) {
            Some(disk) => test(dir.path(), &disk),
            None => eprintln!("skipped: needs root and loop devices"),
        }
    };
    if let Err(panic) = thread::scope(|scope| scope.spawn(run).join()) {
        resume_unwind(panic);
    }
}

impl LoopDisk {
    fn mount(dir: &Path) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).ok()?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).ok()?;
        let (image, path) = (dir.join("image"), dir.join("disk"));
        let file = File::create(&image).expect("room on the disk");
        file.set_len(IMAGE_BYTES).expect("room on the disk");
        fs::create_dir(&path).expect("a directory");
        let is_made = Command::new("mkfs.ext4")
            .arg("-q")
            .arg(&image)
            .status()
            .is_ok_and(|status| status.success());
        assert!(is_made, "e2fsprogs is installed");
        // The loop device goes with the mount.
        let output = Command::new("mount")
            .args(["-o", "loop"])
            .args([&image, &path])
            .output()
            .expect("util-linux is installed");
        if !output.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Freezes the file system. A separate process thaws it, which also detects the end of this
    /// process.
    pub fn freeze(&self) -> Frozen {
        let mut helper = Command::new("sh")
            .args([
                "-c",
                "fsfreeze -f \"$0\" && echo frozen && read -r _; fsfreeze -u \"$0\"",
            ])
            .arg(&self.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let line_read = BufReader::new(helper.stdout.take().expect("piped")).read_line(&mut line);
        let frozen = Frozen { helper };
        line_read.expect("text");
        assert_eq!(line, "frozen\n");
        frozen
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}
