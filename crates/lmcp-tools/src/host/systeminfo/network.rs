//! The network interfaces.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    addresses::{Address, addresses},
    source::{Reading, Source},
};

/// The network interfaces.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Network {
    /// Those that are up first.
    pub(super) interfaces: Vec<Interface>,
    /// Interfaces that are not shown, because there are too many.
    interfaces_left_out: usize,
    /// Why there are no addresses, if they could not be read.
    addresses_problem: Option<String>,
}

/// A network interface.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Interface {
    /// Its name.
    pub(super) name: String,
    /// Is it switched on, and connected as far as it can tell?
    pub(super) up: bool,
    /// Its hardware address.
    mac: Option<String>,
    /// The largest packet.
    mtu_bytes: Option<u32>,
    /// Its addresses of IPv4, with the length of the prefix.
    pub(super) ipv4: Vec<String>,
    /// Its addresses of IPv6, with the length of the prefix.
    pub(super) ipv6: Vec<String>,
    /// Received since the start.
    rx_bytes: u64,
    /// Sent since the start.
    tx_bytes: u64,
}

/// The most interfaces that are shown: a host of containers has hundreds.
const INTERFACES: usize = 64;
/// The flag of an interface that is switched on, from the kernel's `if.h`.
const IFF_UP: u32 = 1;

pub(super) fn read(source: &Source) -> Reading<Network> {
    let (addresses, addresses_problem) = match addresses() {
        Ok(addresses) if source.is_host() => (addresses, None),
        Ok(_) => (Vec::new(), None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    let mut interfaces: Vec<_> = source
        .read("proc/net/dev")?
        .lines()
        .filter_map(|line| interface(source, line, &addresses))
        .collect();
    interfaces.sort_by(|a, b| (b.up, &a.name).cmp(&(a.up, &b.name)));
    let interfaces_left_out = interfaces.len().saturating_sub(INTERFACES);
    interfaces.truncate(INTERFACES);
    Ok(Network {
        interfaces,
        interfaces_left_out,
        addresses_problem,
    })
}

/// Reads a line of `/proc/net/dev`. `None` for its heading.
fn interface(source: &Source, line: &str, addresses: &[Address]) -> Option<Interface> {
    let (name, numbers) = line.split_once(':')?;
    let name = name.trim();
    let numbers: Vec<u64> = numbers
        .split_whitespace()
        .map_while(|number| number.parse().ok())
        .collect();
    let about = |what: &str| format!("sys/class/net/{name}/{what}");
    let state: String = source.value(&about("operstate")).unwrap_or_default();
    let flags: String = source.value(&about("flags")).unwrap_or_default();
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap_or(0);
    let own = || addresses.iter().filter(|address| address.interface == name);
    let shown = |address: &Address| format!("{}/{}", address.address, address.prefix_length);
    let mac: Option<String> = source.value(&about("address"));
    Some(Interface {
        name: name.to_owned(),
        // Interfaces without a cable, such as `lo`, report `unknown`.
        up: flags & IFF_UP != 0 && matches!(&*state, "up" | "unknown"),
        mac: mac.filter(|mac| !mac.is_empty() && mac != "00:00:00:00:00:00"),
        mtu_bytes: source.value(&about("mtu")),
        ipv4: own()
            .filter(|address| address.address.is_ipv4())
            .map(shown)
            .collect(),
        ipv6: own()
            .filter(|address| address.address.is_ipv6())
            .map(shown)
            .collect(),
        rx_bytes: *numbers.first()?,
        tx_bytes: *numbers.get(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_are_up_come_first_with_their_traffic() {
        let dev = "Inter-|   Receive   |  Transmit\n face |bytes packets|bytes\n\
                   \x20 eth1: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n\
                   \x20   lo: 100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n";
        let (_dir, source) = Source::fake(&[
            ("proc/net/dev", dev),
            ("sys/class/net/lo/operstate", "unknown\n"),
            ("sys/class/net/lo/flags", "0x9\n"),
            ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
            ("sys/class/net/eth1/operstate", "down\n"),
            ("sys/class/net/eth1/flags", "0x1003\n"),
            ("sys/class/net/eth1/address", "02:00:00:00:00:01\n"),
        ]);
        let network = read(&source).unwrap();
        let [lo, eth1] = &network.interfaces[..] else {
            panic!("{network:?}")
        };
        assert_eq!(
            (lo.name.as_str(), lo.up, lo.rx_bytes, lo.tx_bytes),
            ("lo", true, 100, 200)
        );
        assert_eq!(
            (eth1.up, eth1.mac.as_deref()),
            (false, Some("02:00:00:00:00:01"))
        );
        assert_eq!(lo.mac, None);
    }
}
