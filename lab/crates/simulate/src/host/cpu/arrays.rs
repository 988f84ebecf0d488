//! The numbers of structures in memory, and their places.

use perpacket_memory::Line;

use crate::host::address::{Array, FirstLines, Layout, PageTable};
use crate::host::footprint::{Footprint, Structure, Structures};

/// The numbers of instances that a run needs.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// Maximum number of connections at a time, closing ones included.
    pub connections: u32,
    /// Whether the server has a heap for each connection. The bulk sender does not.
    pub has_heap: bool,
    /// Distinct files of the server.
    pub objects: u32,
    /// Maximum number of buffers in the send queue of a connection.
    pub mbufs_per_connection: u32,
    /// Descriptors of each ring.
    pub ring: u32,
}

/// The instances of each structure, by `Structure as usize`.
pub(super) struct Arrays<A>([A; Structure::ALL.len()]);

impl Arrays<Option<Array>> {
    pub fn lay_out(
        layout: &mut Layout,
        footprints: &[Footprint],
        structures: &Structures,
        population: Population,
    ) -> Self {
        let touches = |structure: Structure| {
            (footprints.iter().flat_map(|footprint| &footprint.touches))
                .any(|touch| touch.structure == structure)
        };
        let connections = population.connections;
        let mbufs = connections.saturating_mul(population.mbufs_per_connection);
        let ring = match structures.ring {
            0 => population.ring,
            ring => ring,
        };
        let descriptor_lines = ring.div_ceil(structures.descriptors_per_line);
        let slot_lines = ring.div_ceil(structures.slots_per_line);
        let mut arrays = [const { None }; Structure::ALL.len()];
        let always = [
            (Structure::File, connections),
            (Structure::Socket, connections),
            (Structure::Inpcb, connections),
            (Structure::Tcpcb, connections),
            (Structure::Record, connections),
            (Structure::PcbHash, structures.pcb_hash),
            (Structure::Callout, structures.callout),
            (Structure::Mbuf, mbufs),
            (Structure::TxMbuf, structures.tx_mbufs),
            (Structure::TxDescriptor, descriptor_lines),
            (Structure::RxMbuf, structures.rx_buffers),
            (Structure::RxBuffer, structures.rx_buffers),
            (Structure::RxDescriptor, descriptor_lines),
            (Structure::Object, population.objects),
        ];
        // The server's heap, and the driver's lists of buffers. Unused arrays would move all others
        // to other pages.
        let sometimes = [
            (Structure::Heap, connections, population.has_heap),
            (Structure::TxSlot, slot_lines, touches(Structure::TxSlot)),
            (Structure::RxSlot, slot_lines, touches(Structure::RxSlot)),
        ];
        let sometimes = sometimes.into_iter().filter(|(.., is_used)| *is_used);
        let counts = sometimes.map(|(structure, count, _)| (structure, count));
        for (structure, count) in always.into_iter().chain(counts) {
            let (lines, spacing) = (structures.lines(structure), structure.spacing());
            arrays[structure as usize] = Some(layout.array(count.max(1), lines, spacing));
        }
        Self(arrays)
    }

    /// The physical lines of all instances.
    pub fn place(self, pages: &PageTable) -> Arrays<FirstLines> {
        let placed = |array: Option<Array>| array.map(|array| array.place(pages));
        Arrays(self.0.map(|array| placed(array).unwrap_or_default()))
    }
}

impl Arrays<FirstLines> {
    /// The number of instances.
    pub fn count(&self, structure: Structure) -> u32 {
        self.0[structure as usize].count()
    }

    /// The first line of the instance `index` modulo the number of instances.
    #[inline]
    pub fn line(&self, structure: Structure, index: u32) -> Line {
        self.0[structure as usize].line(index)
    }
}
