//! The regions that verbs on this lane can reach.

use covalent_api::request::Rights;
use covalent_pipe::region::RegionMemory;
use rustc_hash::FxHashMap;

use crate::lane::command::NewRegion;

/// A region with its rules.
#[derive(Debug)]
pub struct Region {
    /// The memory.
    pub memory: RegionMemory,
    /// What verbs may do with it.
    pub rights: Rights,
    /// The session that registered it.
    pub session: u64,
}

/// Regions by key, and keys by name.
#[derive(Debug, Default)]
pub struct Regions {
    by_rkey: FxHashMap<u32, Region>,
    rkeys: FxHashMap<String, u32>,
}

impl Regions {
    /// Takes a region in.
    ///
    /// # Errors
    /// The name or the key is in use.
    pub fn insert(&mut self, new: NewRegion) -> Result<(), String> {
        if self.rkeys.contains_key(&new.name) || self.by_rkey.contains_key(&new.rkey) {
            return Err(format!("region `{}` is registered already", new.name));
        }
        self.rkeys.insert(new.name, new.rkey);
        self.by_rkey.insert(
            new.rkey,
            Region {
                memory: new.memory,
                rights: new.rights,
                session: new.session,
            },
        );
        Ok(())
    }

    /// The region of `rkey`.
    pub fn get(&self, rkey: u32) -> Option<&Region> {
        self.by_rkey.get(&rkey)
    }

    /// The region registered under `name`, with its key.
    pub fn find(&self, name: &str) -> Option<(u32, &Region)> {
        let rkey = *self.rkeys.get(name)?;
        Some((rkey, self.by_rkey.get(&rkey)?))
    }

    /// Forgets the regions of `session`.
    pub fn remove_session(&mut self, session: u64) -> Vec<RegionMemory> {
        let Self { by_rkey, rkeys } = self;
        let removed: Vec<_> = by_rkey
            .extract_if(|_, region| region.session == session)
            .collect();
        rkeys.retain(|_, rkey| by_rkey.contains_key(rkey));
        removed
            .into_iter()
            .map(|(_, region)| region.memory)
            .collect()
    }
}
