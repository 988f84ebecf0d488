//! The interrupts of network queues by processor.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// The interrupts of one queue of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// The interface.
    pub interface: String,
    /// The interrupt's number.
    pub irq: u32,
    /// The name that the driver gave to the interrupt, such as `eth0-TxRx-0`.
    pub name: String,
    /// Interrupts by processor, without zeros.
    pub by_cpu: BTreeMap<usize, u64>,
}

impl Queue {
    /// Interrupts on all processors.
    #[must_use]
    pub fn interrupts(&self) -> u64 {
        self.by_cpu.values().sum()
    }

    /// The processor with the most interrupts; `None` without interrupts.
    #[must_use]
    pub fn served_by(&self) -> Option<usize> {
        let most = self
            .by_cpu
            .iter()
            .max_by_key(|&(cpu, &count)| (count, usize::MAX - cpu));
        most.map(|(&cpu, _)| cpu)
    }

    /// The interrupts since an earlier read.
    pub(super) fn since(&self, before: Option<&Self>) -> Self {
        let then = |cpu: &usize| before.and_then(|queue| queue.by_cpu.get(cpu)).copied();
        let new = self.by_cpu.iter().map(|(cpu, &count)| {
            let count = count.saturating_sub(then(cpu).unwrap_or(0));
            (*cpu, count)
        });
        Self {
            by_cpu: new.filter(|&(_, count)| count > 0).collect(),
            ..self.clone()
        }
    }
}

/// The queues of an interface; `None` if sysfs lists no interrupts. The interrupts of a virtio
/// interface belong to the PCI device that contains it.
pub(super) fn queues_of(sys: &Path, interface: &str) -> Option<Vec<Queue>> {
    let device = sys.join("class/net").join(interface).join("device");
    let device = device.canonicalize().ok()?;
    let numbers = device
        .ancestors()
        .take(2)
        .find_map(|folder| fs::read_dir(folder.join("msi_irqs")).ok())?;
    let mut queues: Vec<_> = numbers
        .filter_map(|number| {
            let irq = number.ok()?.file_name().to_str()?.parse().ok()?;
            // Documentation/ABI/testing/sysfs-kernel-irq: one count for each possible processor.
            let folder = sys.join("kernel/irq").join(format!("{irq}"));
            let counts = fs::read_to_string(folder.join("per_cpu_count")).ok()?;
            let counts = counts.trim().split(',').enumerate();
            let by_cpu = counts.filter_map(|(cpu, count)| Some((cpu, count.parse().ok()?)));
            let name = fs::read(folder.join("actions")).unwrap_or_default();
            Some(Queue {
                interface: interface.to_owned(),
                irq,
                name: String::from_utf8_lossy(&name).trim().to_owned(),
                by_cpu: by_cpu.filter(|&(_, count)| count > 0).collect(),
            })
        })
        .collect();
    queues.sort_by_key(|queue| queue.irq);
    Some(queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_of_an_interface_have_names_and_interrupts_by_processor() {
        let sys = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("devices/pci/msi_irqs/40", "msi");
        file("devices/pci/msi_irqs/41", "msi");
        file("kernel/irq/40/per_cpu_count", "3,4\n");
        file("kernel/irq/40/actions", "virtio3-input.0\n");
        file("kernel/irq/41/per_cpu_count", "0,5\n");
        file("devices/pci/virtio3/uevent", "");
        file("class/net/eth0/uevent", "");
        file("class/net/veth0/uevent", "");
        let device = sys.path().join("class/net/eth0/device");
        std::os::unix::fs::symlink("../../../devices/pci/virtio3", device).unwrap();
        let queues = queues_of(sys.path(), "eth0").unwrap();
        assert_eq!(queues.iter().map(Queue::interrupts).sum::<u64>(), 12);
        assert_eq!(queues[0].name, "virtio3-input.0");
        assert_eq!(queues[0].served_by(), Some(1));
        assert_eq!(queues_of(sys.path(), "veth0"), None);
        let mut later = queues[0].clone();
        later.by_cpu.insert(0, 10);
        assert_eq!(later.since(Some(&queues[0])).served_by(), Some(0));
        assert_eq!(queues[0].since(Some(&queues[0])).served_by(), None);
    }
}
