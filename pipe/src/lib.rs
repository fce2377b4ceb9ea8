//! Ensō pipes in shared memory, their notification rings, and the socket that hands them over.
