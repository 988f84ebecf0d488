//! Who forwards: the kernel, or a program in XDP that asks the kernel for the way.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bpf::{self, License, Link, Mode, Program, forward, pass};
use crate::error::RouterError;
use crate::place::Place;

/// A program on each of some interfaces, until this is dropped.
#[derive(Debug)]
pub struct Plane {
    links: Vec<(Place, Link)>,
}

/// Where each program sits.
#[derive(Clone, Debug, Serialize)]
pub struct Attached {
    /// Mode by interface.
    pub interfaces: BTreeMap<String, Mode>,
}

/// Forwards in XDP what comes in by the interfaces of a router.
///
/// Devices that frames are sent to must take them: real ones do, and veth devices if their far ends
/// have a program, see [`take_redirected`].
///
/// # Errors
/// The kernel takes no such programs here, or an interface has one already.
pub fn in_xdp(interfaces: &[Place]) -> Result<Plane, RouterError> {
    attach(interfaces, |place| {
        bpf::load(&forward(place.hardware()?.mac), License::MitOrGpl)
    })
}

/// Makes veth devices take frames that programs send to their far ends: a program that does
/// nothing, but with which the device has a queue for such frames.
///
/// # Errors
/// As [`in_xdp`].
pub fn take_redirected(interfaces: &[Place]) -> Result<Plane, RouterError> {
    attach(interfaces, |_| bpf::load(&pass(), License::Mit))
}

fn attach(
    interfaces: &[Place],
    load: impl Fn(&Place) -> Result<Program, RouterError>,
) -> Result<Plane, RouterError> {
    let mut links = Vec::with_capacity(interfaces.len());
    for place in interfaces {
        let program = load(place)?;
        let index = place.hardware()?.index;
        // The link keeps the program.
        let link = place.inside(|| Ok(program.attach(index)?))?;
        links.push((place.clone(), link));
    }
    Ok(Plane { links })
}

impl Plane {
    /// Where each program sits.
    #[must_use]
    pub fn attached(&self) -> Attached {
        Attached {
            interfaces: self
                .links
                .iter()
                .map(|(place, link)| (place.to_string(), link.mode))
                .collect(),
        }
    }
}
