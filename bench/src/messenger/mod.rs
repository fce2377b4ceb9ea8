//! UCX and libfabric between two processes of one host: libraries that carry messages, both behind the same few calls.
//!
//! What they are told and which of their calls are used is in `bench/peers/ucx.c` and `bench/peers/libfabric.c`, beside the table that both
//! fill in, `messages.h`. [`end`] is that table seen from here.

mod end;

pub use self::end::End;

/// Which library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// UCX, tag matching over its transports `posix` and `cma`.
    Ucx,
    /// libfabric, its provider `shm`.
    Libfabric,
}

/// Why a peer behind the feature is not there.
pub const LEFT_OUT: &str =
    "this program was built without the feature `peers` (`make bench` asks for it)";

/// Bytes of buffers for messages that arrive, unless two messages take more.
const BUFFERS_BYTES: usize = 8 << 20;

/// Messages that may be under way each way: the most, and the least.
const DEPTH: (usize, usize) = (128, 4);

impl Library {
    /// What it is, for people.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Ucx => "UCX over shared memory, tagged messages",
            Self::Libfabric => "libfabric's provider shm, messages",
        }
    }

    /// Its Debian package.
    const fn package(self) -> &'static str {
        match self {
            Self::Ucx => "libucx-dev",
            Self::Libfabric => "libfabric-dev",
        }
    }

    /// Its version, or why it is not there.
    ///
    /// # Errors
    /// It was not built in; how to have it.
    pub fn version(self) -> Result<String, String> {
        end::version(self)
    }

    /// How it is set up, for people.
    pub fn tuning(self) -> String {
        let (most, least) = DEPTH;
        let own = match self {
            Self::Ucx => {
                "UCX_TLS=posix,cma,self; one worker, thread mode SINGLE; ucp_tag_send_nbx and ucp_tag_recv_nbx, as ucx_perftest's tag_lat and \
                 tag_bw; all else as UCX chooses"
            }
            Self::Libfabric => {
                "FI_EP_RDM, FI_MSG, FI_THREAD_DOMAIN, manual progress, one completion queue without a waiting object; fi_inject up to \
                 inject_size and fi_send beyond, fi_recv posted ahead, as fabtests' fi_rdm_pingpong"
            }
        };
        format!(
            "{own}; {most} messages under way each way, fewer ({least} at least) where they take more than {} MiB; both sides poll",
            BUFFERS_BYTES >> 20
        )
    }

    /// Why it is not there.
    fn absent(self) -> String {
        if !cfg!(feature = "peers") {
            return LEFT_OUT.to_owned();
        }
        let package = self.package();
        format!(
            "it was not installed when this program was built\n  cure: apt-get install {package} (scripts/install-packages bench), and build \
             again (make bench-peers)"
        )
    }
}

/// How many messages of so many bytes may be under way each way.
fn depth(bytes_max: usize) -> usize {
    let (most, least) = DEPTH;
    (BUFFERS_BYTES / bytes_max.max(1)).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_a_library_is_told_its_package() {
        for (library, package) in [
            (Library::Ucx, "libucx-dev"),
            (Library::Libfabric, "libfabric-dev"),
        ] {
            let told = library.absent();
            if cfg!(feature = "peers") {
                assert!(told.contains(package), "{told}");
            } else {
                assert!(told.contains("feature `peers`"), "{told}");
                assert_eq!(library.version(), Err(told));
            }
        }
    }

    #[test]
    fn buffers_stay_small_and_never_too_few() {
        assert_eq!(depth(8), 128);
        assert_eq!(depth(64 << 10), 128);
        assert_eq!(depth(1 << 20), 8);
        assert_eq!(depth(64 << 20), 4);
    }
}
