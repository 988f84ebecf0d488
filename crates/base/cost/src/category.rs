//! The categories of *Communication Breakdown* (Patwardhan, Lebeck and Sorin, 2004), by the program
//! or the part of the kernel to which a routine belongs.
//!
//! The paper's `vmlinux` is divided into network, scheduling, memory, file systems, interrupts and
//! the rest.

use crate::layer::Layer;
use crate::named;

named! {
    /// The program or the part of the kernel that ran.
    pub enum Category {
        /// The server's own executable: the paper's `httpd` and `Appserver`.
        ServerProgram = "server_program",
        /// Executables of other programs on the same processors.
        OtherPrograms = "other_programs",
        /// Shared libraries, including the C library but not those of language runtimes.
        Libraries = "libraries",
        /// Virtual machines and interpreters: the paper's `libjvm`.
        LanguageRuntime = "language_runtime",
        /// The kernel's protocols and sockets.
        KernelNetwork = "kernel_network",
        /// The kernel's scheduler, wakeups included.
        KernelScheduling = "kernel_scheduling",
        /// Page faults and address spaces.
        KernelMemory = "kernel_memory",
        /// File systems, the page cache and block devices.
        KernelFileSystem = "kernel_file_system",
        /// Interrupt entry, timers and softirq dispatch.
        KernelInterrupt = "kernel_interrupt",
        /// System calls and all other kernel code.
        KernelOther = "kernel_other",
        /// Network drivers: the paper's `e1000` and `bcm5700`.
        NicDriver = "nic_driver",
        /// Network file service: the paper's `nfs` and `sunrpc`.
        FileService = "file_service",
        /// The idle loop.
        Idle = "idle",
    }
}

impl Category {
    /// The category of a layer's code if no rule assigns another.
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
