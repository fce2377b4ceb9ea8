//! All broken hosts. Each has a file that breaks it, lists the expected findings, and repairs it.

/// One line for each host: its file, which is also the name of its test.
macro_rules! hosts {
    ($($host:ident,)*) => {
        $(mod $host;)*

        /// Their names.
        pub const NAMES: &[&str] = &[$(stringify!($host),)*];

        $(
            #[test]
            fn $host() {
                $host::HOST.judge();
            }
        )*
    };
}

hosts! {
    another_program,
    capabilities_dropped,
    checksums_left_to_hardware,
    configuration_wrong,
    consumer_stopped,
    control_gone,
    core_missing,
    cores_shared,
    daemon_gone,
    daemon_stopped,
    descriptors_few,
    group_kept_out,
    group_missing,
    huge_pages_missing,
    interface_down,
    interface_made_anew,
    interface_missing,
    lanes_that_spin,
    locked_memory_low,
    misses_of_a_used_interface,
    mtu_too_large,
    no_carrier,
    node_killed,
    not_a_socket,
    queues_left_out,
    queues_missing,
    restless_lane,
    runtime_dir_full,
    socket_unit_closed,
    stranger,
    twin_guid,
    twin_name,
}
