//! How the program is attached to an interface.

use std::fmt;

/// What the caller asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttachMode {
    /// Native where the driver takes it, generic otherwise; [`crate::Steering::native_refusal`] tells why.
    Auto,
    /// In the driver, before the kernel makes a packet of the frame; an error where the driver cannot.
    Native,
    /// In the network stack: works on every interface, but each frame has been copied into a packet by then.
    Generic,
}

/// What the kernel says it does.
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
    /// What `ip link set … off` calls it.
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
