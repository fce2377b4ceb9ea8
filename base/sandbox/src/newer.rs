//! Calls that take their arguments in memory, where no filter sees them, and that have an older
//! variant without this problem. Libraries fall back to the older variant on `ENOSYS`. They treat
//! any other error as final.

use seccompiler::{BackendError, SeccompAction, SeccompFilter, TargetArch};

const CALLS: [libc::c_long; 2] = [libc::SYS_clone3, libc::SYS_openat2];

pub(crate) fn filter(architecture: TargetArch) -> Result<SeccompFilter, BackendError> {
    SeccompFilter::new(
        CALLS.iter().map(|&call| (call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
        architecture,
    )
}
