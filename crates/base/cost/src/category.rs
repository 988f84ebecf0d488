//! The categories of *Communication Breakdown* (Patwardhan, Lebeck and Sorin, 2004), by the program
//! or the part of the kernel to which a routine belongs.
//!
//! The paper's `vmlinux` is divided into network, scheduling, memory, file systems, interrupts and
//! the rest.

use std::fmt;

use crate::layer::Layer;

/// The program or the part of the kernel that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The server's own executable: the paper's `httpd` and `Appserver`.
    ServerProgram,
    /// Executables of other programs on the same processors.
    OtherPrograms,
    /// Shared libraries, including the C library but not those of language runtimes.
    Libraries,
    /// Virtual machines and interpreters: the paper's `libjvm`.
    LanguageRuntime,
    /// The kernel's protocols and sockets.
    KernelNetwork,
    /// The kernel's scheduler, wakeups included.
    KernelScheduling,
    /// Page faults and address spaces.
    KernelMemory,
    /// File systems, the page cache and block devices.
    KernelFileSystem,
    /// Interrupt entry, timers and softirq dispatch.
    KernelInterrupt,
    /// System calls and all other kernel code.
    KernelOther,
    /// Network drivers: the paper's `e1000` and `bcm5700`.
    NicDriver,
    /// Network file service: the paper's `nfs` and `sunrpc`.
    FileService,
    /// The idle loop.
    Idle,
}

impl Category {
    /// Every category, user programs first.
    pub const ALL: [Self; 13] = [
        Self::ServerProgram,
        Self::OtherPrograms,
        Self::Libraries,
        Self::LanguageRuntime,
        Self::KernelNetwork,
        Self::KernelScheduling,
        Self::KernelMemory,
        Self::KernelFileSystem,
        Self::KernelInterrupt,
        Self::KernelOther,
        Self::NicDriver,
        Self::FileService,
        Self::Idle,
    ];

    /// The name in files, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServerProgram => "server_program",
            Self::OtherPrograms => "other_programs",
            Self::Libraries => "libraries",
            Self::LanguageRuntime => "language_runtime",
            Self::KernelNetwork => "kernel_network",
            Self::KernelScheduling => "kernel_scheduling",
            Self::KernelMemory => "kernel_memory",
            Self::KernelFileSystem => "kernel_file_system",
            Self::KernelInterrupt => "kernel_interrupt",
            Self::KernelOther => "kernel_other",
            Self::NicDriver => "nic_driver",
            Self::FileService => "file_service",
            Self::Idle => "idle",
        }
    }

    /// The category with this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|category| category.name() == name)
    }

    /// The category of a layer's code if no rule assigns another.
    #[must_use]
    pub const fn of(layer: Layer) -> Self {
        match layer {
            Layer::User => Self::ServerProgram,
            Layer::Socket
            | Layer::Tcp
            | Layer::Udp
            | Layer::Ip
            | Layer::Ethernet
            | Layer::Bypass => Self::KernelNetwork,
            Layer::Driver => Self::NicDriver,
            Layer::Interrupt => Self::KernelInterrupt,
            Layer::Scheduler => Self::KernelScheduling,
            Layer::Idle => Self::Idle,
            Layer::Syscall | Layer::Other => Self::KernelOther,
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_is_found_by_its_name() {
        for category in Category::ALL {
            assert_eq!(Category::from_name(category.name()), Some(category));
        }
        assert_eq!(Category::from_name("vmlinux"), None);
    }
}
