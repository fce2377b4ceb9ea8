//! A stock kernel prepared for boot: its uncompressed image, its modules, and an initramfs that
//! mounts the host's root.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, anyhow, bail};

use crate::command::output;

/// Modules that the initramfs loads: access to the host's files, and the overlay. A kernel may have
/// some of them built in.
const MODULES: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Kernel {
    folder: PathBuf,
    release: String,
}

impl Kernel {
    /// The kernel of this release in `folder`.
    pub fn at(folder: &Path, release: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            release: release.to_owned(),
        }
    }

    /// Returns the output of `uname -r`.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The uncompressed image: a machine that is emulated would spend seconds on unpacking it.
    pub fn image(&self) -> PathBuf {
        self.folder.join("vmlinux")
    }

    /// The first root.
    pub fn initramfs(&self) -> PathBuf {
        self.folder.join("initramfs.gz")
    }

    /// The folder with the folder of modules that has the release's name.
    pub fn modules(&self) -> PathBuf {
        self.folder.join("modules")
    }

    /// Creates all parts from the unpacked packages below the folder. `tools` contains busybox,
    /// `scripts` the init process.
    ///
    /// # Errors
    /// The missing part or the failed step.
    pub fn prepare(&self, tools: &Path, scripts: &Path) -> Result<()> {
        let unpacked = self.folder.join("unpacked");
        let modules = self.modules().join(&self.release);
        if modules.exists() {
            fs::remove_dir_all(self.modules()).context("cannot remove the modules of before")?;
        }
        fs::create_dir_all(self.modules()).context("cannot make a folder for modules")?;
        let found = first_of(
            &unpacked,
            &[
                format!("lib/modules/{}", self.release),
                format!("usr/lib/modules/{}", self.release),
            ],
        )?;
        fs::rename(&found, &modules).with_context(|| format!("cannot move {}", found.display()))?;
        // The tools look for `lib/modules` below a root.
        let root = self.folder.join("root");
        fs::create_dir_all(root.join("lib")).context("cannot make a root for depmod")?;
        let link = root.join("lib/modules");
        if !link.is_symlink() {
            symlink("../../modules", &link).context("cannot link the modules")?;
        }
        output(
            Command::new(sbin("depmod"))
                .arg("-b")
                .arg(&root)
                .arg(&self.release),
        )?;
        let compressed = first_of(&unpacked, &[format!("boot/vmlinuz-{}", self.release)])
            .or_else(|_| first_of(&modules, &["vmlinuz".to_owned()]))?;
        extract(&compressed, &self.image())?;
        self.make_initramfs(&root, tools, scripts)
    }

    fn make_initramfs(&self, root: &Path, tools: &Path, scripts: &Path) -> Result<()> {
        let tree = self.folder.join("initramfs");
        if tree.exists() {
            fs::remove_dir_all(&tree).context("cannot remove the first root of before")?;
        }
        for folder in ["bin", "modules", "proc", "sys", "dev"] {
            fs::create_dir_all(tree.join(folder)).context("cannot make the first root")?;
        }
        let busybox = first_of(
            tools,
            &["bin/busybox".to_owned(), "usr/bin/busybox".to_owned()],
        )?;
        fs::copy(busybox, tree.join("bin/busybox")).context("cannot copy busybox")?;
        let init = tree.join("init");
        fs::copy(scripts.join("init/initramfs.sh"), &init)
            .context("cannot copy the first process")?;
        fs::set_permissions(&init, fs::Permissions::from_mode(0o755))
            .context("cannot make the first process executable")?;

        let mut order: Vec<String> = Vec::new();
        for module in self.files_of(root)? {
            let name = module
                .file_name()
                .map(|name| name.to_string_lossy().trim_end_matches(".xz").to_owned())
                .ok_or_else(|| anyhow!("a module without a name"))?;
            if order.contains(&name) {
                continue;
            }
            let to = tree.join("modules").join(&name);
            if module.extension().is_some_and(|end| end == "xz") {
                let file = File::create(&to).context("cannot make a module")?;
                pipe(Command::new("xz").arg("-dc").arg(&module).stdout(file), &[])?;
            } else {
                fs::copy(&module, &to).context("cannot copy a module")?;
            }
            order.push(name);
        }
        fs::write(tree.join("modules/order"), order.join("\n") + "\n")
            .context("cannot write the order of modules")?;

        let list = output(Command::new("find").arg(".").current_dir(&tree))?;
        let archive = self.folder.join("initramfs.cpio");
        let file = File::create(&archive).context("cannot make the first root's archive")?;
        pipe(
            Command::new("cpio")
                .args(["--quiet", "-o", "-H", "newc", "-R", "0:0"])
                .current_dir(&tree)
                .stdout(file),
            list.as_bytes(),
        )?;
        let file = File::create(self.initramfs()).context("cannot make the first root")?;
        pipe(
            Command::new("gzip")
                .args(["-1c"])
                .arg(&archive)
                .stdout(file),
            &[],
        )?;
        fs::remove_file(&archive).context("cannot remove the first root's archive")
    }

    /// Returns the files of [`MODULES`] and of their dependencies, in load order.
    fn files_of(&self, root: &Path) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for module in MODULES {
            let listed = Command::new(sbin("modprobe"))
                .args([
                    "--show-depends",
                    "--ignore-install",
                    "-S",
                    &self.release,
                    "-d",
                ])
                .arg(root)
                .arg(module)
                .output()
                .context("cannot run `modprobe`\n  cure: run `scripts/install-packages guest`")?;
            // One that is built in has no file, and older tools call that an error.
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            files.extend(
                listed
                    .lines()
                    .filter_map(|line| line.strip_prefix("insmod "))
                    .map(|path| PathBuf::from(path.trim())),
            );
        }
        if files.is_empty() {
            bail!(
                "kernel {} has none of the modules {MODULES:?}",
                self.release
            );
        }
        Ok(files)
    }
}

/// Returns the path of an administrator's program, which may not be in PATH.
fn sbin(program: &str) -> PathBuf {
    first_of(
        Path::new("/"),
        &[format!("usr/sbin/{program}"), format!("sbin/{program}")],
    )
    .unwrap_or_else(|_| program.into())
}

fn first_of(root: &Path, names: &[String]) -> Result<PathBuf> {
    names
        .iter()
        .map(|name| root.join(name))
        .find(|path| path.exists())
        .ok_or_else(|| anyhow!("there is none of {names:?} in {}", root.display()))
}

/// Runs a program with `input` on its standard input. `command` defines where its output goes.
fn pipe(command: &mut Command, input: &[u8]) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.stdin(Stdio::piped()).spawn().with_context(|| {
        format!("cannot run `{program}`\n  cure: run `scripts/install-packages guest`")
    })?;
    let fed = child.stdin.take().map(|mut stdin| stdin.write_all(input));
    let status = child
        .wait()
        .with_context(|| format!("cannot wait for `{program}`"))?;
    if let Some(Err(error)) = fed
        && status.success()
    {
        return Err(error).with_context(|| format!("cannot feed `{program}`"));
    }
    if !status.success() {
        bail!("`{program}` failed ({status})");
    }
    Ok(())
}

/// Writes the uncompressed image that a compressed image contains.
///
/// Source: the kernel's `Documentation/arch/x86/boot.rst`, fields `setup_sects`, `payload_offset`,
/// `payload_length`.
fn extract(from: &Path, to: &Path) -> Result<()> {
    let image = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let payload =
        payload(&image).ok_or_else(|| anyhow!("{} is no kernel for x86", from.display()))?;
    let program = match payload {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ["zstd", "-qdc"].as_slice(),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => &["xz", "-dc", "--single-stream"],
        [0x1f, 0x8b, ..] => &["gzip", "-dc"],
        _ => bail!("{} is compressed in an unknown way", from.display()),
    };
    let file = File::create(to).with_context(|| format!("cannot make {}", to.display()))?;
    pipe(
        Command::new(program[0]).args(&program[1..]).stdout(file),
        payload,
    )
}

/// Returns the compressed part, without the uncompressed length that follows it.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        count => usize::from(count),
    };
    let begin = ((sectors + 1) * 512).checked_add(word(0x248)?)?;
    let end = begin.checked_add(word(0x24c)?)?.checked_sub(4)?;
    image.get(begin..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_found_by_the_header() {
        let mut image = vec![0_u8; 4096];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&12_u32.to_le_bytes());
        image[1040..1052].copy_from_slice(b"compress\0\0\0\0");
        assert_eq!(payload(&image), Some(&b"compress"[..]));
        image[0x24c..0x250].copy_from_slice(&5000_u32.to_le_bytes());
        assert_eq!(payload(&image), None, "beyond the end");
        assert_eq!(payload(&image[..100]), None, "no header");
        image[0x202] = 0;
        assert_eq!(payload(&image), None, "no kernel");
    }
}
