//! Contents of an envelope, decoded here independently: a checker with the state machine's decoder
//! would share its errors.

use std::fmt;

/// Kinds of envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A row, with a batch or without.
    Flow = 1,
    /// A row with its sender's state at the end of the view.
    Change,
    /// A request to be known.
    Hello,
    /// Contacts that are known.
    Known,
    /// A view for a joiner.
    Welcome,
    /// A part of an application's state.
    State,
    /// A request for a token, or the reply to one.
    Challenge,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Flow,
        Self::Change,
        Self::Hello,
        Self::Known,
        Self::Welcome,
        Self::State,
        Self::Challenge,
    ];

    /// Its name, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Change => "change",
            Self::Hello => "hello",
            Self::Known => "known",
            Self::Welcome => "welcome",
            Self::State => "state",
            Self::Challenge => "challenge",
        }
    }
}

/// An envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentEnvelope {
    pub kind: Kind,
    /// Rank of the sender in the view; 255 for a stranger.
    pub from: u8,
    /// Its number between the two; 0 for none.
    pub number: u32,
    pub group: u64,
    pub view: u64,
    pub incarnation: u64,
    /// Envelopes of the receiver that the sender has taken.
    pub taken: u32,
    pub row: Row,
    /// Bytes of the batch.
    pub batch_bytes: usize,
    /// The proposal that the sender accepted is decided.
    pub decided: bool,
}

/// A member's report of its own state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// All batches of rounds below this one are sent.
    pub rounds: u64,
    /// Positions that its application has.
    pub delivered: u64,
    /// Rounds of each sender that it holds without a gap.
    pub received: Vec<u64>,
    pub leaving: bool,
    /// Its application has the state.
    pub has_state: bool,
    /// It receives nothing more in this view.
    pub wedged: bool,
    /// State at the end of the view, in an envelope of that kind.
    pub change: Option<Change>,
}

/// A member's state at the end of its view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub promised: u64,
    /// The ballot that it accepted last; 0 for none.
    pub accepted: u64,
    /// Attempt that the following claims belong to.
    pub attempt: u32,
    /// The proposal of `accepted`.
    pub proposal: Option<Proposal>,
}

/// A proposal of the next view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// Members that stay, by rank in the old view.
    pub stay: u32,
    /// Voters, by rank in the next view.
    pub voters: u32,
    /// Joiners: GUID, incarnation and key of each.
    pub joiners: Vec<(u64, u64, u32)>,
    /// Rounds of each sender of the old view that are delivered.
    pub trim: Vec<u64>,
}

const HEAD_BYTES: usize = 80;

impl SentEnvelope {
    /// Decodes an envelope.
    ///
    /// # Errors
    /// The envelope cannot be decoded. An honest member never sends such an envelope.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader { bytes, at: 0 };
        let version = reader.u8()?;
        let kind = reader.u8()?;
        let kind = Kind::ALL
            .into_iter()
            .find(|known| *known as u8 == kind)
            .filter(|_| version == 3)
            .ok_or_else(|| format!("version {version} and kind {kind} mean nothing"))?;
        let (from, flags, number) = (reader.u8()?, reader.u8()?, reader.u32()?);
        let (group, view, incarnation) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let taken = reader.u32()?;
        let batch_bytes = usize::from(reader.u16()?);
        let members = usize::from(reader.u8()?);
        reader.u8()?;
        // Skip the tokens: not even a trace of the simulator shows them.
        reader.take::<24>()?;
        let (rounds, delivered) = (reader.u64()?, reader.u64()?);
        debug_assert_eq!(reader.at, HEAD_BYTES);
        let received = reader.list(members)?;
        let change = (kind == Kind::Change)
            .then(|| reader.change(members))
            .transpose()?;
        Ok(Self {
            kind,
            from,
            number,
            group,
            view,
            incarnation,
            taken,
            row: Row {
                rounds,
                delivered,
                received,
                leaving: flags & 1 != 0,
                has_state: flags & 2 != 0,
                wedged: flags & 4 != 0,
                change,
            },
            batch_bytes,
            decided: flags & 8 != 0,
        })
    }
}

impl fmt::Display for SentEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = &self.row;
        write!(
            f,
            "{} {} of view {}: taken {}, rounds {}, delivered {}, received {:?}",
            self.kind.as_str(),
            self.number,
            self.view,
            self.taken,
            row.rounds,
            row.delivered,
            row.received
        )?;
        for (flag, name) in [
            (row.leaving, "leaving"),
            (row.has_state, "has state"),
            (row.wedged, "wedged"),
            (self.decided, "decided"),
        ] {
            if flag {
                write!(f, ", {name}")?;
            }
        }
        if self.batch_bytes > 0 {
            write!(f, ", a batch of {} B", self.batch_bytes)?;
        }
        if let Some(change) = &row.change {
            write!(
                f,
                "; attempt {}, promised {:x}, accepted {:x}",
                change.attempt, change.promised, change.accepted
            )?;
            if let Some(proposal) = &change.proposal {
                write!(
                    f,
                    ": remaining {:b}, voters {:b}, {} join, trim {:?}",
                    proposal.stay,
                    proposal.voters,
                    proposal.joiners.len(),
                    proposal.trim
                )?;
            }
        }
        Ok(())
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = rest
            .first_chunk()
            .ok_or_else(|| format!("{} bytes end before {}", self.bytes.len(), self.at + N))?;
        self.at += N;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, String> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    fn list(&mut self, len: usize) -> Result<Vec<u64>, String> {
        let mut list = Vec::with_capacity(len);
        for _ in 0..len {
            list.push(self.u64()?);
        }
        Ok(list)
    }

    fn change(&mut self, members: usize) -> Result<Change, String> {
        let (promised, accepted) = (self.u64()?, self.u64()?);
        let attempt = self.u32()?;
        self.u32()?;
        for _ in 0..members {
            self.u32()?;
        }
        let proposal = (accepted != 0)
            .then(|| self.proposal(members))
            .transpose()?;
        Ok(Change {
            promised,
            accepted,
            attempt,
            proposal,
        })
    }

    fn proposal(&mut self, members: usize) -> Result<Proposal, String> {
        let (stay, voters) = (self.u32()?, self.u32()?);
        let joiners = self.u8()?;
        self.take::<7>()?;
        let joiners = (0..joiners)
            .map(|_| {
                let contact = (self.u64()?, self.u64()?, self.u32()?);
                self.u32()?;
                Ok(contact)
            })
            .collect::<Result<_, String>>()?;
        Ok(Proposal {
            stay,
            voters,
            joiners,
            trim: self.list(members)?,
        })
    }
}
