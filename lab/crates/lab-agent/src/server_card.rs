//! The card of the server in an emulated machine: where its registers are, how many queues it has, and
//! what the guest's kernel counts about it.

use std::fs;
use std::path::PathBuf;

use perpacket_agent::status::Failure;

/// The driver of cards with several queues.
const DRIVER: &str = "igb";

/// Between two texts.
const END: &str = "\0";

/// A network card by its interface.
pub(crate) struct ServerCard {
    interface: String,
}

impl ServerCard {
    pub(crate) fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
        }
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from("/sys/class/net").join(&self.interface)
    }

    /// The physical address of the card's registers: the first resource of its PCI device.
    pub(crate) fn registers(&self) -> Result<u64, Failure> {
        let file = self.folder().join("device/resource");
        let text = fs::read_to_string(&file)
            .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
        text.split_whitespace()
            .next()
            .and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok())
            .ok_or_else(|| Failure::failed(format!("{}: expected an address", file.display())))
    }

    /// The number of queues of an igb card; 0 for a card with one queue that has another driver.
    pub(crate) fn queues(&self) -> Result<u64, Failure> {
        let driver = fs::read_link(self.folder().join("device/driver")).unwrap_or_default();
        if driver.file_name().is_none_or(|name| name != DRIVER) {
            return Ok(0);
        }
        let folder = self.folder().join("queues");
        let entries = fs::read_dir(&folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| name.starts_with("rx-")).count() as u64)
    }

    /// A counter of the interface.
    pub(crate) fn read(&self, name: &str) -> Result<u64, Failure> {
        let file = self.folder().join("statistics").join(name);
        fs::read_to_string(&file)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .ok_or_else(|| Failure::failed(format!("{}: expected a count", file.display())))
    }

    /// Packets sent and received.
    pub(crate) fn frames(&self) -> Result<u64, Failure> {
        Ok(self.read("tx_packets")? + self.read("rx_packets")?)
    }

    /// The kernel's counts by processor: `/proc/net/softnet_stat`, and the lines of `/proc/interrupts`
    /// about this card. Each ends with a zero byte. Empty for a card with one queue.
    pub(crate) fn steering(&self) -> Result<String, Failure> {
        if self.queues()? == 0 {
            return Ok(String::new());
        }
        let read = |file: &str| {
            fs::read_to_string(file).map_err(|error| Failure::failed(format!("{file}: {error}")))
        };
        let interrupts = read("/proc/interrupts")?;
        let processors = interrupts.lines().take(1);
        let own = interrupts
            .lines()
            .filter(|line| line.contains(&self.interface));
        let interrupts: Vec<_> = processors.chain(own).map(narrow).collect();
        let interrupts = interrupts.join("\n");
        Ok([read("/proc/net/softnet_stat")?, interrupts]
            .map(|text| text + END)
            .concat())
    }
}

/// A line without repeated blanks, so that all texts fit into one request.
fn narrow(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_line_has_the_same_words() {
        let interrupt = "  25:          0     100200   PCI-MSI 65537-edge      eth0-rx-0";
        assert_eq!(
            narrow(interrupt),
            "25: 0 100200 PCI-MSI 65537-edge eth0-rx-0"
        );
    }
}
