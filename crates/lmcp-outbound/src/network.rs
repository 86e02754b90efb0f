//! A network: an address, and the number of its bits that count.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use crate::Flaw;

/// A network, as `10.0.0.0/8`, or a single address, as `::1`.
///
/// ```
/// use lmcp_outbound::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains("10.9.8.7".parse().unwrap()));
/// # Ok::<(), lmcp_outbound::Flaw>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// At most the number of bits of the address.
    bits: u8,
}

impl Network {
    /// Whether the address is in the network. An IPv4 address in the form of IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (address.to_canonical(), self.address) {
            (IpAddr::V4(address), IpAddr::V4(net)) => {
                let mask = u32::MAX.checked_shl(Ipv4Addr::BITS - bits).unwrap_or(0);
                address.to_bits() & mask == net.to_bits() & mask
            }
            (IpAddr::V6(address), IpAddr::V6(net)) => {
                let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - bits).unwrap_or(0);
                address.to_bits() & mask == net.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self {
            address,
            bits: whole(address),
        }
    }
}

impl FromStr for Network {
    type Err = Flaw;

    fn from_str(text: &str) -> Result<Self, Flaw> {
        let Some((address, bits)) = text.split_once('/') else {
            return text
                .parse::<IpAddr>()
                .map(Self::from)
                .map_err(|_| Flaw::Host);
        };
        let address = address.parse::<IpAddr>().map_err(|_| Flaw::Host)?;
        let bits = bits.parse::<u8>().map_err(|_| Flaw::Host)?;
        if bits > whole(address) {
            return Err(Flaw::Host);
        }
        Ok(Self { address, bits })
    }
}

fn whole(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
