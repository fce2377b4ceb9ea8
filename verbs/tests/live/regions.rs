//! Registered memory as its owner sees it.

use std::{sync::Arc, thread};

use covalent::{Client, Device, Error, RegionOptions, Rights, Target, Timeout};
use covalent_dataplane::Daemon;

use crate::nodes::{Nodes, config};

#[test]
fn words_and_bytes_of_one_region_agree_and_bounds_hold() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    let region = device.register_region("memory", 64, Rights::ALL).unwrap();
    assert_eq!((region.name(), region.size_bytes()), ("memory", 64));
    region.store(8, 0x0102_0304_0506_0708).unwrap();
    let mut bytes = [0; 3];
    region.read(8, &mut bytes).unwrap();
    assert_eq!(bytes, [8, 7, 6]);
    region.write(15, &[0xff, 0xaa]).unwrap();
    assert_eq!(region.load(8).unwrap(), 0xff02_0304_0506_0708);
    assert_eq!(region.load(16).unwrap(), 0xaa);
    assert_eq!(region.swap(16, 5).unwrap(), 0xaa);
    assert_eq!(region.compare_and_swap(16, 5, 6).unwrap(), Ok(5));
    assert_eq!(region.compare_and_swap(16, 5, 7).unwrap(), Err(6));
    assert_eq!(region.fetch_add(16, u64::MAX).unwrap(), 6);
    assert_eq!(region.load(16).unwrap(), 5);
    for wrong in [4, 64, u64::MAX] {
        let error = region.load(wrong).unwrap_err();
        assert!(
            matches!(&error, Error::Invalid(text) if text.contains("memory")),
            "{error}"
        );
        assert!(region.store(wrong, 1).is_err());
    }
    assert!(region.write(60, &[0; 5]).is_err());
    assert!(region.read(u64::MAX, &mut [0; 2]).is_err());
}

#[test]
fn a_region_is_shared_between_threads() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    let region = Arc::new(device.register_region("shared", 8, Rights::ALL).unwrap());
    thread::scope(|scope| {
        for _ in 0..4 {
            let region = Arc::clone(&region);
            scope.spawn(move || (0..1000).for_each(|_| _ = region.fetch_add(0, 1).unwrap()));
        }
    });
    assert_eq!(region.load(0).unwrap(), 4000);
}

#[test]
fn an_invalid_registration_is_refused_with_its_reason() {
    let nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    let _region = device.register_region("taken", 64, Rights::ALL).unwrap();
    for (name, size_bytes) in [
        ("taken", 64),
        ("", 64),
        ("odd", 63),
        ("empty", 0),
        ("huge", 1 << 40),
    ] {
        let error = device
            .register_region(name, size_bytes, Rights::ALL)
            .unwrap_err();
        assert!(
            matches!(&error, Error::Refused { reason, .. } if !reason.is_empty()),
            "{name}: {error}"
        );
    }
    // The name is free when its owner is gone.
    drop(device);
    let other = nodes.attach("b");
    crate::nodes::eventually("the name is free", || {
        other.register_region("taken", 64, Rights::ALL).is_ok()
    });
}

#[test]
fn a_durable_region_keeps_the_effects_of_verbs_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().display();
    let journal = format!("[journal]\ndirectory = \"{at}/journal\"\nfile_mib = 1");
    let config = config(&directory, "a", &["p0"], &journal);
    for generation in 0..3 {
        let daemon = Daemon::start(config.clone()).unwrap();
        let device = Device::attach(config.socket_path(), "test").unwrap();
        let options = RegionOptions::new(Rights::ALL).durable(true);
        let region = device
            .register_region_with("ledger", 4096, options)
            .unwrap();
        assert_eq!(region.load(8).unwrap(), 100 * generation);
        let mut verbs = device.verbs().unwrap();
        let ledger = verbs
            .open_region(Target::Local, "ledger", Timeout::FOREVER)
            .unwrap();
        for _ in 0..100 {
            verbs.fetch_add(&ledger, 8, 1, Timeout::FOREVER).unwrap();
        }
        let wrong_size = device.register_region_with("ledger", 64, options);
        assert!(matches!(wrong_size, Err(Error::Refused { .. })));
        daemon.stop();
    }
    let daemon = Daemon::start(config.clone()).unwrap();
    let mut client = Client::connect(config.socket_path(), "test").unwrap();
    let other = client.delete_region("ladder");
    assert!(
        matches!(&other, Err(Error::Refused { reason, .. }) if reason.contains("`ladder`")),
        "{other:?}"
    );
    client.delete_region("ledger").unwrap();
    let device = Device::attach(config.socket_path(), "test").unwrap();
    let options = RegionOptions::new(Rights::ALL).durable(true);
    let region = device.register_region_with("ledger", 64, options).unwrap();
    assert_eq!(region.load(8).unwrap(), 0);
    device.delete_region("ledger").unwrap();
    assert_eq!(client.status().unwrap().durable_regions, []);
    daemon.stop();
}

#[test]
fn without_a_journal_a_durable_region_is_refused() {
    let nodes = Nodes::start(&["p0"]);
    let options = RegionOptions::new(Rights::ALL).durable(true);
    let refused = nodes
        .attach("b")
        .register_region_with("ledger", 64, options);
    assert!(
        matches!(&refused, Err(Error::Refused { reason, .. }) if reason.contains("[journal]")),
        "{refused:?}"
    );
}
