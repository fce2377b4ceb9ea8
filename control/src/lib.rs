//! The control process: brings links up, keeps the neighbour table, exports metrics.
