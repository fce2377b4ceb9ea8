//! The suite on a port that may damage its frames and does not, and the damage that it does once it
//! is configured to.

use covalent_config::{FAULT_RATE_FRAMES, FaultRates, FaultsConfig};
use covalent_dataplane::port::{Port, TxRefusal};

use crate::{
    cable::Place,
    frames::frame,
    pair::{LivePair, collect, until},
    suite,
};

/// Frames of each try. At these rates a correct result is more than six standard deviations away
/// from the bounds.
const FRAMES: u64 = 20_000;

/// One frame in twenty.
const RATE: u32 = FAULT_RATE_FRAMES / 20;

const FRAME_BYTES: usize = 64;

const DROP: FaultRates = FaultRates {
    drop_per_100k: RATE,
    corrupt_per_100k: 0,
    duplicate_per_100k: 0,
    blackhole: false,
};

const CORRUPT: FaultRates = FaultRates {
    drop_per_100k: 0,
    corrupt_per_100k: RATE,
    ..DROP
};

const DUPLICATE: FaultRates = FaultRates {
    drop_per_100k: 0,
    duplicate_per_100k: RATE,
    ..DROP
};

const BLACKHOLE: FaultRates = FaultRates {
    drop_per_100k: 0,
    blackhole: true,
    ..DROP
};

fn rx(rates: FaultRates) -> Option<FaultsConfig> {
    seeded_rx(rates, 1)
}

fn seeded_rx(rx: FaultRates, seed: u32) -> Option<FaultsConfig> {
    Some(FaultsConfig {
        seed,
        rx,
        ..FaultsConfig::default()
    })
}

fn tx(rates: FaultRates) -> Option<FaultsConfig> {
    Some(FaultsConfig {
        seed: 1,
        tx: rates,
        ..FaultsConfig::default()
    })
}

fn idle_pair() -> LivePair {
    let idle = Some(FaultsConfig::default());
    Place::new().damaged_pair(idle, idle)
}

fn idle(test: impl FnOnce(&mut LivePair)) {
    test(&mut idle_pair());
}

fn deed(port: &dyn Port, name: &str) -> u64 {
    port.counters()
        .faults
        .iter()
        .find(|(deed, _)| *deed == name)
        .unwrap_or_else(|| panic!("no deed `{name}`"))
        .1
}

fn injected(port: &dyn Port) -> u64 {
    let drops = port.counters().drops;
    drops
        .iter()
        .find(|(cause, _)| *cause == "fault_injected")
        .expect("a separate cause")
        .1
}

/// Sends numbered frames to the far end, one burst after the other. Returns the frames that arrived
/// there.
fn flood(pair: &mut LivePair, count: u64) -> Vec<Vec<u8>> {
    let mut arrived = Vec::new();
    let mut sent = 0;
    until("all are sent", || {
        while sent < count && pair.near.tx_space() > 0 {
            match pair.near.tx(&frame(sent, FRAME_BYTES)) {
                Ok(()) => sent += 1,
                Err(TxRefusal::Full) => panic!("refused where room was promised"),
                Err(other) => panic!("frame {sent} was refused: {other}"),
            }
        }
        pair.near.flush().unwrap();
        // Less than the longest burst of a lane, and odd, so that copies meet the end of a burst.
        while collect(&mut *pair.far, 33, &mut arrived) > 0 {}
        sent == count && pair.near.tx_idle()
    });
    // A burst that was lost as a whole shows nothing while more lies behind it.
    for _ in 0..100 {
        collect(&mut *pair.far, 33, &mut arrived);
    }
    arrived
}

fn assert_near_rate(deeds: u64) {
    let wanted = FRAMES * u64::from(RATE) / u64::from(FAULT_RATE_FRAMES);
    // The standard deviation of 20 000 tries of one in twenty is 31.
    assert!(
        deeds.abs_diff(wanted) < 200,
        "{deeds} of {FRAMES}, expected about {wanted}"
    );
}

#[test]
fn frames_keep_order_and_bytes() {
    idle(|pair| suite::order_and_bytes(pair, 20_000));
}

#[test]
fn every_size_crosses() {
    idle(|pair| suite::every_size(pair));
}

#[test]
fn an_unsendable_frame_is_refused() {
    idle(|pair| suite::refusals(pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    idle(suite::back_pressure);
}

#[test]
fn a_million_frames_leak_nothing() {
    idle(|pair| suite::nothing_leaks(pair, 1_000_000));
}

#[test]
fn counters_conserve() {
    idle(suite::counters_conserve);
}

#[test]
fn disabling_is_pulling_the_cable() {
    idle(suite::disabling);
}

#[test]
fn no_wake_up_is_lost() {
    suite::no_lost_wake_up(idle_pair(), 20_000);
}

#[test]
fn work_forbids_sleep() {
    idle(suite::work_forbids_sleep);
}

#[test]
fn a_burst_stays_until_the_next() {
    idle(suite::a_burst_stays_until_the_next);
}

#[test]
fn a_port_that_loses_every_frame_still_refuses_unsendable_ones() {
    let mut pair = Place::new().damaged_pair(tx(BLACKHOLE), None);
    let max = pair.near.info().frame_bytes_max as usize;
    let port = &mut *pair.near;
    assert_eq!(port.tx(&[0; 13]), Err(TxRefusal::Runt { len: 13 }));
    assert_eq!(
        port.tx(&vec![0; max + 1]),
        Err(TxRefusal::TooLong { len: max + 1, max })
    );
    port.set_enabled(false).unwrap();
    assert_eq!(port.tx(&frame(1, 64)), Err(TxRefusal::Down));
    assert_eq!((injected(port), port.counters().tx_packets), (0, 0));
}

#[test]
fn the_configured_rate_of_frames_is_lost_and_others_are_unchanged() {
    let damage: [[Option<FaultsConfig>; 2]; 2] = [[tx(DROP), None], [None, rx(DROP)]];
    for [near, far] in damage {
        let mut pair = Place::new().damaged_pair(near, far);
        let arrived = flood(&mut pair, FRAMES);
        let (dropped, by) = match near {
            Some(_) => (deed(&*pair.near, "tx_dropped"), &pair.near),
            None => (deed(&*pair.far, "rx_dropped"), &pair.far),
        };
        assert_near_rate(dropped);
        assert_eq!(injected(&**by), dropped);
        assert_eq!(pair.near.counters().tx_packets, FRAMES);
        assert_eq!(pair.far.counters().rx_packets, arrived.len() as u64);
        assert_eq!(arrived.len() as u64 + dropped, FRAMES);
        let mut sent = (0..FRAMES).map(|number| frame(number, FRAME_BYTES));
        assert!(
            arrived.iter().all(|got| sent.any(|wanted| wanted == **got)),
            "the remaining frames are in order and unchanged"
        );
    }
}

#[test]
fn the_configured_rate_of_frames_has_one_bit_flipped() {
    let damage: [[Option<FaultsConfig>; 2]; 2] = [[tx(CORRUPT), None], [None, rx(CORRUPT)]];
    for [near, far] in damage {
        let mut pair = Place::new().damaged_pair(near, far);
        let arrived = flood(&mut pair, FRAMES);
        assert_eq!(arrived.len() as u64, FRAMES);
        let mut places = [0_u64; FRAME_BYTES * 8];
        for (number, got) in (0..).zip(&arrived) {
            let turned: Vec<usize> = (0..FRAME_BYTES * 8)
                .filter(|bit| {
                    let sent = frame(number, FRAME_BYTES)[bit / 8];
                    (sent ^ got[bit / 8]) >> (bit % 8) & 1 == 1
                })
                .collect();
            assert!(turned.len() <= 1, "frame {number}: bits {turned:?}");
            turned.iter().for_each(|&bit| places[bit] += 1);
        }
        let corrupted = match near {
            Some(_) => deed(&*pair.near, "tx_corrupted"),
            None => deed(&*pair.far, "rx_corrupted"),
        };
        assert_near_rate(corrupted);
        assert_eq!(places.iter().sum::<u64>(), corrupted);
        let hit = places.iter().filter(|&&count| count > 0).count();
        // 512 places and about 1000 throws leave one in seven or eight out.
        assert!(hit > FRAME_BYTES * 6, "{hit} of 512 places were hit");
    }
}

#[test]
fn the_configured_rate_of_frames_is_duplicated_in_sequence() {
    let damage: [[Option<FaultsConfig>; 2]; 2] = [[tx(DUPLICATE), None], [None, rx(DUPLICATE)]];
    for [near, far] in damage {
        let mut pair = Place::new().damaged_pair(near, far);
        let arrived = flood(&mut pair, FRAMES);
        let duplicated = match near {
            Some(_) => deed(&*pair.near, "tx_duplicated"),
            None => deed(&*pair.far, "rx_duplicated"),
        };
        assert_near_rate(duplicated);
        assert_eq!(arrived.len() as u64, FRAMES + duplicated);
        assert_eq!(pair.far.counters().rx_packets, arrived.len() as u64);
        let mut once = arrived.clone();
        once.dedup();
        assert!(
            (0..)
                .zip(&once)
                .all(|(number, got)| frame(number, FRAME_BYTES) == *got),
            "without the copies, the sent frames remain"
        );
        assert_eq!(once.len() as u64, FRAMES);
    }
}

#[test]
fn no_burst_exceeds_the_requested_size() {
    let twice = FaultRates {
        duplicate_per_100k: FAULT_RATE_FRAMES,
        ..DUPLICATE
    };
    let mut pair = Place::new().damaged_pair(None, rx(twice));
    for number in 0..64 {
        pair.near.tx(&frame(number, 64)).unwrap();
    }
    pair.near.flush().unwrap();
    for (max, shown) in [(1, 1), (2, 2), (3, 3), (8, 8), (5, 5)] {
        assert_eq!(collect(&mut *pair.far, max, &mut Vec::new()), shown);
    }
    assert_eq!(deed(&*pair.far, "rx_duplicated"), 1 + 1 + 4 + 2);
}

#[test]
fn a_black_hole_swallows_one_direction_and_its_carrier_stays() {
    let mut pair = Place::new().damaged_pair(tx(BLACKHOLE), None);
    assert!(flood(&mut pair, 500).is_empty());
    assert!(pair.near.carrier() && pair.far.carrier());
    assert_eq!(deed(&*pair.near, "tx_blackholed"), 500);
    assert_eq!(injected(&*pair.near), 500);
    std::mem::swap(&mut pair.near, &mut pair.far);
    assert_eq!(
        flood(&mut pair, 500).len(),
        500,
        "the other way is as it was"
    );
    std::mem::swap(&mut pair.near, &mut pair.far);
    let none = FaultRates::default();
    pair.near.set_faults(BLACKHOLE, none).unwrap();
    assert_eq!(flood(&mut pair, 500).len(), 500);
    std::mem::swap(&mut pair.near, &mut pair.far);
    assert!(flood(&mut pair, 500).is_empty());
    assert_eq!(deed(&*pair.far, "rx_blackholed"), 500);
}

#[test]
fn a_seed_selects_the_same_frames_and_another_seed_others() {
    let lost = |seed| {
        let mut pair = Place::new().damaged_pair(None, seeded_rx(DROP, seed));
        flood(&mut pair, 2_000)
    };
    let first = lost(7);
    assert!(first == lost(7));
    assert!(first != lost(8));
}

#[test]
fn faults_in_one_direction_do_not_change_those_in_the_other() {
    let lost = |tx| {
        let faults = FaultsConfig {
            seed: 3,
            rx: DROP,
            tx,
        };
        let mut pair = Place::new().damaged_pair(None, Some(faults));
        std::mem::swap(&mut pair.near, &mut pair.far);
        flood(&mut pair, 100);
        std::mem::swap(&mut pair.near, &mut pair.far);
        flood(&mut pair, 2_000)
    };
    assert!(lost(FaultRates::default()) == lost(DROP));
}

#[test]
fn a_port_that_was_not_configured_to_damages_nothing() {
    let mut pair = Place::new().damaged_pair(None, None);
    let refusal = pair.near.set_faults(DROP, DROP).unwrap_err().to_string();
    assert!(
        refusal.contains("`cable`")
            && refusal.contains("[port.faults]")
            && refusal.contains("--allow-faults"),
        "{refusal}"
    );
    assert!(pair.near.counters().faults.is_empty());
}

#[test]
fn the_promised_space_includes_duplicates() {
    let twice = FaultRates {
        duplicate_per_100k: FAULT_RATE_FRAMES,
        ..DUPLICATE
    };
    let mut pair = Place::new().damaged_pair(tx(twice), None);
    let space = pair.near.tx_space();
    for number in 0..space {
        pair.near
            .tx(&frame(
                number as u64,
                pair.near.info().frame_bytes_max as usize,
            ))
            .unwrap();
    }
    assert_eq!(deed(&*pair.near, "tx_duplicated"), space as u64);
}
