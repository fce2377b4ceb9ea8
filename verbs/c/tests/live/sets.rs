//! Pipes that share a match, from C.

use std::{
    ffi::{CStr, c_int},
    ptr,
};

use covalent_c::*;

use crate::{
    calls::{ANY, attach},
    nodes::Nodes,
};

const OK: c_int = covalent_status::COVALENT_OK as c_int;
const INVALID: c_int = covalent_status::COVALENT_INVALID as c_int;
const REFUSED: c_int = covalent_status::COVALENT_REFUSED as c_int;

#[test]
fn pipes_share_a_vlan_and_an_incompatible_binding_is_refused() {
    let nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "a");
    let vlan = covalent_match {
        kind: COVALENT_MATCH_VLAN,
        vlan: 7,
        ..ANY
    };
    let beyond = covalent_match { vlan: 4096, ..vlan };
    let (mut rx, mut rx_tx) = (covalent_pipe { handle: 0 }, covalent_pipe { handle: 0 });
    let expect_message = |part: &str| {
        // SAFETY: the library's text ends in a zero.
        let error = unsafe { CStr::from_ptr(covalent_last_error()) };
        let error = error.to_string_lossy().into_owned();
        assert!(error.contains(part), "{error}");
    };
    // SAFETY: the arguments meet the functions' requirements.
    unsafe {
        assert_eq!(
            covalent_pipe_open(device, COVALENT_PIPE_RX, 1 << 16, ptr::null(), &raw mut rx),
            OK
        );
        assert_eq!(
            covalent_pipe_open(
                device,
                COVALENT_PIPE_RX_TX,
                1 << 16,
                c"p0".as_ptr(),
                &raw mut rx_tx
            ),
            OK
        );
        for spread in [0, 3] {
            assert_eq!(
                covalent_pipe_bind_spread(rx, &raw const vlan, spread),
                INVALID
            );
            expect_message("COVALENT_SPREAD_HASH or COVALENT_SPREAD_ROUND_ROBIN");
        }
        assert_eq!(
            covalent_pipe_bind_spread(rx, &raw const beyond, COVALENT_SPREAD_HASH),
            REFUSED
        );
        expect_message("4096 is not a VLAN id");
        assert_eq!(
            covalent_pipe_bind_spread(rx, &raw const vlan, COVALENT_SPREAD_HASH),
            OK
        );
        assert_eq!(covalent_pipe_bind(rx_tx, &raw const vlan), REFUSED);
        expect_message("share it by `hash`");
        assert_eq!(
            covalent_pipe_bind_spread(rx_tx, &raw const vlan, COVALENT_SPREAD_ROUND_ROBIN),
            REFUSED
        );
        assert_eq!(
            covalent_pipe_bind_spread(rx_tx, &raw const vlan, COVALENT_SPREAD_HASH),
            OK
        );
        assert_eq!(covalent_pipe_unbind(rx, &raw const vlan), OK);
        assert_eq!(covalent_pipe_unbind(rx_tx, &raw const vlan), OK);
        assert_eq!(covalent_pipe_unbind(rx_tx, &raw const vlan), REFUSED);
    }
    assert_eq!(covalent_pipe_close(rx), OK);
    assert_eq!(covalent_pipe_close(rx_tx), OK);
    assert_eq!(covalent_device_close(device), OK);
}
