//! The interrupts of network queues by processor, and the frames that drivers count by queue.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use perpacket_cost::Directions;
use serde::Serialize;

/// The interrupts of one queue of a network interface, and the frames that it carried.
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
    /// The driver's counts for the queue; `null` if it does not count by queue.
    pub carried: Option<Carried>,
}

/// Frames of a queue, as the driver counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Carried {
    /// Frames.
    pub packets: Directions,
    /// Bytes of the frames.
    pub bytes: Directions,
}

impl Carried {
    const fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets.since(before.packets),
            bytes: self.bytes.since(before.bytes),
        }
    }
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
        let then = before.and_then(|queue| queue.carried).unwrap_or_default();
        Self {
            by_cpu: new.filter(|&(_, count)| count > 0).collect(),
            carried: self.carried.map(|carried| carried.since(then)),
            ..self.clone()
        }
    }
}

/// The queues of an interface; `None` if sysfs lists no interrupts. The interrupts of a virtio
/// interface belong to the PCI device that contains it. An interrupt that is no message is found by
/// the name of the interface or of its device; other devices may share it. `counters` are the
/// driver's.
pub(super) fn queues_of(
    sys: &Path,
    interface: &str,
    counters: &[(String, u64)],
) -> Option<Vec<Queue>> {
    let device = sys.join("class/net").join(interface).join("device");
    let device = device.canonicalize().ok()?;
    let irqs = sys.join("kernel/irq");
    let actions = |irq: u32| {
        let name = fs::read(irqs.join(format!("{irq}")).join("actions")).unwrap_or_default();
        String::from_utf8_lossy(&name).trim().to_owned()
    };
    let messages = device
        .ancestors()
        .take(2)
        .find_map(|folder| Some(numbers(&folder.join("msi_irqs"))).filter(|all| !all.is_empty()));
    let irqs_of = messages.unwrap_or_else(|| {
        let device = device.file_name().unwrap_or_default().to_string_lossy();
        let mut all = numbers(&irqs);
        all.retain(|&irq| {
            let mut names = actions(irq)
                .split(',')
                .map(str::to_owned)
                .collect::<Vec<_>>();
            names
                .iter_mut()
                .any(|name| *name == interface || *name == device)
        });
        all
    });
    let mut queues: Vec<_> = irqs_of
        .into_iter()
        .filter_map(|irq| {
            // Documentation/ABI/testing/sysfs-kernel-irq: one count for each possible processor.
            let counts = irqs.join(format!("{irq}/per_cpu_count"));
            let counts = fs::read_to_string(counts).ok()?;
            let counts = counts.trim().split(',').enumerate();
            let by_cpu = counts.filter_map(|(cpu, count)| Some((cpu, count.parse().ok()?)));
            let name = actions(irq);
            Some(Queue {
                interface: interface.to_owned(),
                irq,
                carried: carried(&name, interface, counters),
                name,
                by_cpu: by_cpu.filter(|&(_, count)| count > 0).collect(),
            })
        })
        .collect();
    queues.sort_by_key(|queue| queue.irq);
    (!queues.is_empty()).then_some(queues)
}

/// The numbers among the names in a folder.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(|entry| number(entry.ok()?)).collect()
}

/// The words and the numbers in a name: `rx_queue_0_packets` is rx, queue, 0 and packets.
fn words(name: &str) -> impl Iterator<Item = &str> {
    let is_word = |word: &&[u8]| word[0].is_ascii_alphanumeric();
    let is_same = |one: &u8, other: &u8| {
        one.is_ascii_digit() == other.is_ascii_digit()
            && one.is_ascii_alphabetic() == other.is_ascii_alphabetic()
    };
    let parts = name.as_bytes().chunk_by(is_same).filter(is_word);
    parts.filter_map(|word| std::str::from_utf8(word).ok())
}

/// What the driver counted for the queue of an interrupt with this name.
fn carried(name: &str, interface: &str, counters: &[(String, u64)]) -> Option<Carried> {
    let name = name.split('@').next()?.to_ascii_lowercase();
    let own = name.rsplit(&interface.to_ascii_lowercase()).next()?;
    let words: Vec<_> = words(own).collect();
    let [.., kind, number] = words[..] else {
        return None;
    };
    let number: usize = number.parse().ok()?;
    let of_queues = [
        "rx", "tx", "txrx", "rxtx", "input", "output", "comp", "q", "queue",
    ];
    if !of_queues.contains(&kind) {
        return None;
    }
    let receives = words.iter().any(|word| ["rx", "input"].contains(word));
    let sends = words.iter().any(|word| ["tx", "output"].contains(word));
    let mut counted = None;
    for (of, count) in counters
        .iter()
        .filter_map(|(name, count)| Some((counter(name)?, count)))
    {
        let is_ours = if of.is_sent {
            sends || !receives
        } else {
            receives || !sends
        };
        if of.queue == number && is_ours {
            let carried: &mut Carried = counted.get_or_insert_default();
            let unit = if of.is_bytes {
                &mut carried.bytes
            } else {
                &mut carried.packets
            };
            *(if of.is_sent {
                &mut unit.sent
            } else {
                &mut unit.received
            }) += count;
        }
    }
    counted
}

/// What a driver's counter of a queue counts.
struct Counter {
    queue: usize,
    is_sent: bool,
    is_bytes: bool,
}

/// A counter of a queue by its name. Drivers differ: `rx_queue_0_packets`, `rx0_packets`,
/// `rx-0.packets`, `queue_0_rx_cnt`, `[0]: rx_ucast_packets`.
fn counter(name: &str) -> Option<Counter> {
    let (mut queue, mut is_sent, mut is_bytes) = (None, None, None);
    for word in words(name) {
        let is_second = match word {
            "rx" | "tx" => is_sent.replace(word == "tx").is_some(),
            "packets" | "pkts" | "cnt" | "bytes" => is_bytes.replace(word == "bytes").is_some(),
            "queue" | "q" | "ucast" | "mcast" | "bcast" => false,
            number => queue.replace(number.parse().ok()?).is_some(),
        };
        if is_second {
            return None;
        }
    }
    Some(Counter {
        queue: queue?,
        is_sent: is_sent?,
        is_bytes: is_bytes?,
    })
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
        let queues = queues_of(sys.path(), "eth0", &[]).unwrap();
        assert_eq!(queues.iter().map(Queue::interrupts).sum::<u64>(), 12);
        assert_eq!(queues[0].name, "virtio3-input.0");
        assert_eq!(queues[0].served_by(), Some(1));
        assert_eq!(queues_of(sys.path(), "veth0", &[]), None);
        let mut later = queues[0].clone();
        later.by_cpu.insert(0, 10);
        assert_eq!(later.since(Some(&queues[0])).served_by(), Some(0));
        assert_eq!(queues[0].since(Some(&queues[0])).served_by(), None);
    }
    #[test]
    fn an_interrupt_that_is_no_message_is_found_by_its_name() {
        let sys = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (irq, actions) in [
            (10, "uhci_hcd:usb1,eth0"),
            (11, "eth01"),
            (12, "virtio3"),
            (13, ""),
        ] {
            file(&format!("kernel/irq/{irq}/actions"), actions);
            file(&format!("kernel/irq/{irq}/per_cpu_count"), "0,7\n");
        }
        file("class/net/eth0/device/uevent", "");
        file("class/net/eth1/uevent", "");
        file("devices/virtio3/uevent", "");
        let device = sys.path().join("class/net/eth1/device");
        std::os::unix::fs::symlink("../../../devices/virtio3", device).unwrap();
        for (interface, irq) in [("eth0", 10), ("eth1", 12)] {
            let queues = queues_of(sys.path(), interface, &[]).unwrap();
            let irqs: Vec<_> = queues.iter().map(|queue| queue.irq).collect();
            assert_eq!(irqs, [irq], "{interface}");
            assert_eq!(queues[0].served_by(), Some(1));
        }
    }

    #[test]
    fn the_counters_of_each_driver_are_those_of_the_interrupts_queue() {
        let counts = |names: [&str; 4]| names.map(|name| (name.to_owned(), name.len() as u64));
        let drivers = [
            (
                "eth0-TxRx-3",
                counts([
                    "rx_queue_3_packets",
                    "rx_queue_3_bytes",
                    "tx_queue_3_packets",
                    "tx_queue_2_bytes",
                ]),
            ),
            (
                "i40e-eth0-TxRx-3",
                counts(["rx-3.packets", "rx-3.bytes", "tx-3.packets", "tx-2.bytes"]),
            ),
            (
                "mlx5_comp3@pci:0000:01:00.0",
                counts(["rx3_packets", "rx3_bytes", "tx3_packets", "tx2_bytes"]),
            ),
            (
                "eth0-Tx-Rx-3",
                counts([
                    "queue_3_rx_cnt",
                    "queue_3_rx_bytes",
                    "queue_3_tx_cnt",
                    "queue_2_tx_bytes",
                ]),
            ),
        ];
        for (interrupt, counters) in drivers {
            let carried = carried(interrupt, "eth0", &counters).unwrap();
            let length = |at: usize| counters[at].1;
            assert_eq!(
                carried.packets,
                Directions {
                    sent: length(2),
                    received: length(0)
                },
                "{interrupt}"
            );
            assert_eq!(
                carried.bytes,
                Directions {
                    sent: 0,
                    received: length(1)
                },
                "{interrupt}"
            );
        }
        let counters = counts([
            "rx0_packets",
            "tx0_packets",
            "rx0_xdp_packets",
            "rx_long_byte_count",
        ]);
        let input = carried("virtio0-input.0", "eth0", &counters).unwrap();
        assert_eq!(
            input.packets,
            Directions {
                sent: 0,
                received: 11
            }
        );
        for interrupt in [
            "eth0",
            "virtio0-config",
            "mlx5_async0@pci:0000:01:00.0",
            "eth0-TxRx-1",
        ] {
            assert_eq!(carried(interrupt, "eth0", &counters), None, "{interrupt}");
        }
    }
}
