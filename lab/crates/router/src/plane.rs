//! Forwarding in XDP by the kernel's routes.

use std::collections::BTreeMap;

use perpacket_linux::interface::Interface;
use serde::Serialize;

use crate::bpf::{self, License, Link, Mode, Program, forward, pass};
use crate::error::RouterError;

/// Programs attached to interfaces. Dropping this detaches them.
#[derive(Debug)]
pub struct Plane {
    links: Vec<(Interface, Link)>,
}

/// The mode in which each program runs.
#[derive(Clone, Debug, Serialize)]
pub struct Attached {
    pub interfaces: BTreeMap<String, Mode>,
}

/// Attaches programs that forward the frames that the interfaces of a router receive.
///
/// The devices that send the frames must accept redirected frames. Real devices do. Veth devices do
/// if their far ends have a program, see [`accept_redirected`].
///
/// # Errors
/// The kernel refuses the program, or an interface has one already.
pub fn in_xdp(interfaces: &[Interface]) -> Result<Plane, RouterError> {
    attach(interfaces, |interface| {
        bpf::load(&forward(interface.hardware()?.mac), License::MitOrGpl)
    })
}

/// Makes veth devices accept the frames that they receive when a program redirects frames to their
/// peers. For this, the function attaches a program that passes every frame, because a veth device
/// has a queue for redirected frames only while it has a program.
///
/// # Errors
/// The same errors as [`in_xdp`].
pub fn accept_redirected(interfaces: &[Interface]) -> Result<Plane, RouterError> {
    attach(interfaces, |_| bpf::load(&pass(), License::Mit))
}

fn attach(
    interfaces: &[Interface],
    load: impl Fn(&Interface) -> Result<Program, RouterError>,
) -> Result<Plane, RouterError> {
    let mut links = Vec::with_capacity(interfaces.len());
    for interface in interfaces {
        let program = load(interface)?;
        let index = interface.hardware()?.index;
        // The link keeps the program loaded.
        let link = bpf::attach(&program, interface, index)?;
        links.push((interface.clone(), link));
    }
    Ok(Plane { links })
}

impl Plane {
    /// The mode in which each program runs.
    pub fn attached(&self) -> Attached {
        Attached {
            interfaces: self
                .links
                .iter()
                .map(|(interface, link)| (interface.to_string(), link.mode))
                .collect(),
        }
    }
}
