//! UCX and libfabric between two processes of one host: messaging libraries behind a common set of
//! calls.
//!
//! `bench/peers/ucx.c` and `bench/peers/libfabric.c` configure the libraries and select their
//! calls. Both fill in the table of `messages.h`. [`end`] is the Rust side of that table.

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

/// Why a system behind the feature is not there.
pub const LEFT_OUT: &str =
    "this program was built without the feature `peers` (`make bench` builds with it)";

/// Bytes of buffers for messages that arrive, unless two messages take more.
const BUFFERS_BYTES: usize = 8 << 20;

/// Messages in flight each way: the maximum and the minimum.
const DEPTH: (usize, usize) = (128, 4);

impl Library {
    /// Returns the description.
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
                "UCX_TLS=posix,cma,self; one worker, thread mode SINGLE; ucp_tag_send_nbx and \
                 ucp_tag_recv_nbx, as ucx_perftest's tag_lat and \
                 tag_bw; all else as UCX chooses"
            }
            Self::Libfabric => {
                "FI_EP_RDM, FI_MSG, FI_THREAD_DOMAIN, manual progress, one completion queue \
                 without a waiting object; fi_inject up to \
                 inject_size and fi_send beyond, fi_recv posted ahead, as fabtests' fi_rdm_pingpong"
            }
        };
        format!(
            "{own}; {most} messages in flight each way, fewer ({least} at least) if they take more \
             than {} MiB; both sides poll",
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
            "it was not installed when this program was built\n  cure: apt-get install {package} \
             (scripts/install-packages bench), and build \
             again (make bench-peers)"
        )
    }
}

/// Returns how many messages of `bytes_max` may be in flight each way.
fn depth(bytes_max: usize) -> usize {
    let (most, least) = DEPTH;
    (BUFFERS_BYTES / bytes_max.max(1)).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_reported_with_its_package() {
        for (library, package) in [
            (Library::Ucx, "libucx-dev"),
            (Library::Libfabric, "libfabric-dev"),
        ] {
            let message = library.absent();
            if cfg!(feature = "peers") {
                assert!(message.contains(package), "{message}");
            } else {
                assert!(message.contains("feature `peers`"), "{message}");
                assert_eq!(library.version(), Err(message));
            }
        }
    }

    #[test]
    fn buffers_stay_small_and_sufficient() {
        assert_eq!(depth(8), 128);
        assert_eq!(depth(64 << 10), 128);
        assert_eq!(depth(1 << 20), 8);
        assert_eq!(depth(64 << 20), 4);
    }
}
