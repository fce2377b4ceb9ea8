//! Any bytes give a message or an error.

use covalent_api::{
    control::{ControlReply, ControlRequest},
    datagram,
    request::{Reply, Request},
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(
        ProptestConfig {
            cases: 2 * ProptestConfig::default().cases,
            failure_persistence: None,
            ..ProptestConfig::default()
        }
    )]

    #[test]
    fn arbitrary_bytes_are_no_message(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(datagram::decode::<Request>(&bytes).is_err());
        prop_assert!(datagram::decode::<Reply>(&bytes).is_err());
        prop_assert!(datagram::decode::<ControlRequest>(&bytes).is_err());
        prop_assert!(datagram::decode::<ControlReply>(&bytes).is_err());
    }

    #[test]
    fn json_like_bytes_never_panic(
        text in "([\\[\\]{}:,\"0-9]|request|reply|hello|status|match|any|version|true|null){0,60}",
    ) {
        drop(datagram::decode::<Request>(text.as_bytes()));
        drop(datagram::decode::<Reply>(text.as_bytes()));
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep = "[".repeat(60_000);
    assert!(datagram::decode::<Reply>(deep.as_bytes()).is_err());
}
