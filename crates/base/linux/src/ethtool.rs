//! The counters and the queues of network drivers, as `ethtool -S`, `-L` and `-X` print and set them
//! (include/uapi/linux/ethtool.h).

use std::io;

use crate::interface::{control_socket, exchange};

/// The request that carries ethtool's commands (include/uapi/linux/sockios.h).
pub(crate) const SIOCETHTOOL: libc::Ioctl = 0x8946;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GRXFHINDIR: u32 = 0x38;
const ETHTOOL_SRXFHINDIR: u32 = 0x39;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SCHANNELS: u32 = 0x3d;
const ETH_SS_STATS: u32 = 1;

/// Bytes of a counter's name (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;

/// Most counters of a driver. The kernel writes as many as the driver has, however large the buffer
/// is, so there is room for many more than the driver reports.
const ROOM: usize = 1 << 16;

/// Sets the number of an interface's queues, each for both directions.
///
/// # Errors
/// The thread's namespace has no such interface, its driver cannot set the number, or the card has
/// fewer queues.
pub fn set_queues(interface: &str, queues: u32) -> io::Result<()> {
    // struct ethtool_channels: command, most queues to receive, send, for other uses and for both
    // directions, then the present numbers of these.
    let mut channels = [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
    ask(interface, &mut channels)?;
    let most = channels[4];
    if most < queues {
        let error = format!("the card has {most} queues, expected {queues} or more");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    (channels[0], channels[8]) = (ETHTOOL_SCHANNELS, queues);
    ask(interface, &mut channels)
}

/// Sets the table of receive-side scaling (RSS): the queue of each value of a flow's hash. `queues` is
/// repeated until the table is full.
///
/// # Errors
/// The thread's namespace has no such interface, its driver has no table, or the card has no such
/// queue.
pub fn set_flow_table(interface: &str, queues: &[u32]) -> io::Result<()> {
    // struct ethtool_rxfh_indir: command, entries of the table, entries. The kernel answers a table
    // of no entries with the number of the card's.
    let mut table = vec![ETHTOOL_GRXFHINDIR, 0];
    ask(interface, table.as_mut_slice())?;
    table[0] = ETHTOOL_SRXFHINDIR;
    table.extend(queues.iter().cycle().take(table[1] as usize));
    ask(interface, table.as_mut_slice())
}

/// Passes a structure to the driver of an interface, which reads and writes it.
fn ask<T: ?Sized>(interface: &str, structure: &mut T) -> io::Result<()> {
    // The kernel writes to the structure, which outlives the call.
    let address = std::ptr::from_mut(structure);
    exchange(control_socket()?, interface, SIOCETHTOOL, |request| {
        request.ifr_ifru.ifru_data = address.cast();
    })
    .map(drop)
}

/// The counters of an interface's driver, by their names.
///
/// # Errors
/// The thread's namespace has no such interface, or its driver has no counters.
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    // struct ethtool_sset_info: the mask of the sets, then the number of the counters in each.
    let mut sets = [pair(ETHTOOL_GSSET_INFO, 0), 1 << ETH_SS_STATS, 0];
    ask(interface, &mut sets)?;
    let number = u32::from_ne_bytes(sets[2].to_ne_bytes()[..4].try_into().unwrap_or_default());
    if number == 0 || number as usize > ROOM / 2 {
        let error = format!("{interface}: its driver has {number} counters");
        return Err(io::Error::new(io::ErrorKind::Unsupported, error));
    }
    // struct ethtool_gstrings: command, set, number, names.
    let mut names = vec![0_u64; ROOM * NAME_BYTES / 8];
    names[..2].copy_from_slice(&[pair(ETHTOOL_GSTRINGS, ETH_SS_STATS), pair(number, 0)]);
    ask(interface, names.as_mut_slice())?;
    // struct ethtool_stats: command, number, counts.
    let mut counts = vec![0_u64; ROOM];
    counts[0] = pair(ETHTOOL_GSTATS, number);
    ask(interface, counts.as_mut_slice())?;
    let names = names.iter().flat_map(|word| word.to_ne_bytes()).skip(12);
    let names: Vec<u8> = names.take(number as usize * NAME_BYTES).collect();
    let text = |name: &[u8]| {
        let end = name.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&name[..end.unwrap_or(NAME_BYTES)]).into_owned()
    };
    let names = names.chunks_exact(NAME_BYTES).map(text);
    Ok(names.zip(counts.into_iter().skip(1)).collect())
}

/// Two numbers beside each other in memory.
fn pair(first: u32, second: u32) -> u64 {
    let [first, second] = [first, second].map(u32::to_ne_bytes);
    u64::from_ne_bytes([first, second].concat().try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_without_counters_or_queues_and_no_driver_are_errors() {
        for interface in ["lo", "no-such-card"] {
            assert!(statistics(interface).is_err(), "{interface}");
            assert!(set_queues(interface, 1).is_err(), "{interface}");
            assert!(set_flow_table(interface, &[0]).is_err(), "{interface}");
        }
    }
}
