//! Quotas of slots per user.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Identity of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Principal {
    /// Root, or control's own user.
    Operator,
    /// Another user, by number.
    User(u32),
    /// A peer over TCP, whose user is unknown.
    Network,
}

impl Principal {
    /// The user with this number.
    #[must_use]
    pub fn of(uid: u32) -> Self {
        if uid == 0 || uid == rustix::process::geteuid().as_raw() {
            Self::Operator
        } else {
            Self::User(uid)
        }
    }
}

/// How many places there are.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// In all.
    pub all: usize,
    /// For all except the operator together. The rest is reserved for the operator.
    pub strangers: usize,
    /// For one user other than the operator, and for the network.
    pub each: usize,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// This user has all that one user may have.
    #[error("user {uid} has {most}, the maximum for one user: close one, or try again later")]
    User {
        /// The user.
        uid: u32,
        /// The bound.
        most: usize,
    },
    /// TCP has all that it may have.
    #[error("{0} are in use over TCP, the maximum there: close one, or try again later")]
    Network(usize),
    /// All but the reserved ones are taken.
    #[error(
        "{0} are in use, and the rest is reserved for root and the node's user: try again later"
    )]
    Strangers(usize),
    /// All are taken.
    #[error("{0} are in use, the maximum: close one, or try again later")]
    All(usize),
}

/// A number of places. Clones share them.
#[derive(Debug, Clone)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Slots of all except the operator. Without zeros, so its size is bounded by the number of
    /// slots.
    strangers: HashMap<Principal, usize>,
}

/// A place that is taken until the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Place(#[expect(dead_code, reason = "held for its drop")] Arc<Held>);

#[derive(Debug)]
struct Held {
    shared: Arc<Shared>,
    principal: Principal,
}

impl Places {
    /// All of them free.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let taken = Mutex::default();
        Self(Arc::new(Shared { bounds, taken }))
    }

    /// Takes a slot for `principal`.
    ///
    /// # Errors
    /// [`Full`] names the reached limit.
    pub fn take(&self, principal: Principal) -> Result<Place, Full> {
        let Bounds {
            all,
            strangers,
            each,
        } = self.0.bounds;
        let mut taken = self.0.taken();
        if taken.all >= all {
            return Err(Full::All(all));
        }
        if principal != Principal::Operator {
            if taken.strangers.values().sum::<usize>() >= strangers {
                return Err(Full::Strangers(strangers));
            }
            let own = taken.strangers.entry(principal).or_default();
            if *own >= each {
                return Err(match principal {
                    Principal::User(uid) => Full::User { uid, most: each },
                    Principal::Operator | Principal::Network => Full::Network(each),
                });
            }
            *own += 1;
        }
        taken.all += 1;
        let shared = Arc::clone(&self.0);
        Ok(Place(Arc::new(Held { shared, principal })))
    }
}

impl Shared {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Consistent at every unlock, even after a panic of a holder.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = self.shared.taken();
        taken.all -= 1;
        if let Some(own) = taken.strangers.get_mut(&self.principal) {
            *own -= 1;
            if *own == 0 {
                taken.strangers.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        all: 8,
        strangers: 6,
        each: 3,
    };

    #[test]
    fn one_user_fills_its_share_and_strangers_leave_the_reserve() {
        let places = Places::new(BOUNDS);
        let take = |principal| places.take(principal).map_err(|full| full.to_string());
        let of_one: Vec<Place> = (0..3)
            .map(|_| take(Principal::User(1)).expect("its share"))
            .collect();
        let refused = take(Principal::User(1)).expect_err("its share is used up");
        assert!(refused.starts_with("user 1 has 3"), "{refused}");
        let of_net: Vec<Place> = (0..3)
            .map(|_| take(Principal::Network).expect("its share"))
            .collect();
        let refused = take(Principal::User(2)).expect_err("the rest is reserved");
        assert!(refused.contains("reserved for root"), "{refused}");
        let reserve: Vec<Place> = (0..2)
            .map(|_| take(Principal::Operator).expect("reserved"))
            .collect();
        assert!(take(Principal::Operator).is_err());
        drop(of_net);
        drop(take(Principal::User(2)).expect("given back"));
        drop((of_one, reserve));
        assert_eq!(places.0.taken().all, 0);
        assert!(places.0.taken().strangers.is_empty());
    }

    #[test]
    fn the_operator_may_use_every_place() {
        let places = Places::new(BOUNDS);
        let all: Vec<Place> = (0..8)
            .map(|_| places.take(Principal::Operator).expect("free"))
            .collect();
        assert_eq!(places.take(Principal::User(1)).err(), Some(Full::All(8)));
        drop(all);
    }

    #[test]
    fn a_place_is_free_again_after_its_last_holder() {
        let places = Places::new(Bounds { all: 1, ..BOUNDS });
        let place = places.take(Principal::User(1)).expect("free");
        let other = place.clone();
        drop(place);
        assert_eq!(places.take(Principal::User(2)).err(), Some(Full::All(1)));
        drop(other);
        assert!(places.take(Principal::User(2)).is_ok());
    }
}
