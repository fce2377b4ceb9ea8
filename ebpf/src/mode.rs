//! How the program is attached to an interface.

use std::fmt;

/// Attach mode that the caller requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachMode {
    /// Native if the driver supports it, otherwise generic.
    /// [`Steering::native_refusal`](crate::Steering::native_refusal) returns the reason.
    Auto,
    /// In the driver, before the kernel makes a packet of the frame. An error if the driver does
    /// not support it.
    Native,
    /// In the network stack. It works on every interface, but each frame is first copied into a
    /// packet.
    Generic,
}

/// Attach mode that the kernel reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectiveMode {
    /// The driver runs the program.
    Native,
    /// The network stack runs the program.
    Generic,
}

impl fmt::Display for EffectiveMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// One of the three places of an interface where an XDP program can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachPoint {
    /// In the driver.
    Native,
    /// In the network stack.
    Generic,
    /// In the network card itself.
    Hardware,
}

impl AttachPoint {
    /// Its keyword in `ip link set … off`.
    pub(crate) const fn ip_keyword(self) -> &'static str {
        match self {
            Self::Native => "xdpdrv",
            Self::Generic => "xdpgeneric",
            Self::Hardware => "xdpoffload",
        }
    }
}

impl fmt::Display for AttachPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Hardware => "hardware",
        })
    }
}
