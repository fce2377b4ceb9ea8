//! What applications link: pipes, regions and atomic verbs.
