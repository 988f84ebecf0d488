//! The counters of network drivers, as `ethtool -S` prints them (include/uapi/linux/ethtool.h).

use std::io;

use crate::interface::{control_socket, exchange};

/// The request that carries ethtool's commands (include/uapi/linux/sockios.h).
pub(crate) const SIOCETHTOOL: libc::Ioctl = 0x8946;

const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;

/// Bytes of a counter's name (`ETH_GSTRING_LEN`).
const NAME_BYTES: usize = 32;

/// Most counters of a driver. The kernel writes as many as the driver has, however large the buffer
/// is, so there is room for many more than the driver reports.
const ROOM: usize = 1 << 16;

/// The counters of an interface's driver, by their names.
///
/// # Errors
/// The thread's namespace has no such interface, or its driver has no counters.
pub fn statistics(interface: &str) -> io::Result<Vec<(String, u64)>> {
    let socket = control_socket()?;
    // The kernel reads and writes the words, which outlive the call.
    let ask = |words: &mut [u64]| {
        let address = words.as_mut_ptr();
        exchange(&socket, interface, SIOCETHTOOL, |request| {
            request.ifr_ifru.ifru_data = address.cast();
        })
    };
    // struct ethtool_sset_info: the mask of the sets, then the number of the counters in each.
    let mut sets = [pair(ETHTOOL_GSSET_INFO, 0), 1 << ETH_SS_STATS, 0];
    ask(&mut sets)?;
    let number = u32::from_ne_bytes(sets[2].to_ne_bytes()[..4].try_into().unwrap_or_default());
    if number == 0 || number as usize > ROOM / 2 {
        let error = format!("{interface}: its driver has {number} counters");
        return Err(io::Error::new(io::ErrorKind::Unsupported, error));
    }
    // struct ethtool_gstrings: command, set, number, names.
    let mut names = vec![0_u64; ROOM * NAME_BYTES / 8];
    names[..2].copy_from_slice(&[pair(ETHTOOL_GSTRINGS, ETH_SS_STATS), pair(number, 0)]);
    ask(&mut names)?;
    // struct ethtool_stats: command, number, counts.
    let mut counts = vec![0_u64; ROOM];
    counts[0] = pair(ETHTOOL_GSTATS, number);
    ask(&mut counts)?;
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
    fn a_driver_without_counters_and_no_driver_are_errors() {
        for interface in ["lo", "no-such-card"] {
            assert!(statistics(interface).is_err(), "{interface}");
        }
    }
}
