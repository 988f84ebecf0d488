//! The numbers of structures in memory, and their places.

use crate::host::address::{Array, Layout, PageTable, Placed};
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

/// Physical first lines of the instances of structures, by kind.
pub(super) struct Arrays<A> {
    pub file: A,
    pub socket: A,
    pub inpcb: A,
    pub tcpcb: A,
    pub record: A,
    pub pcb_hash: A,
    pub callout: A,
    pub mbuf: A,
    pub tx_mbuf: A,
    pub tx_descriptor: A,
    pub rx_mbuf: A,
    pub rx_buffer: A,
    pub rx_descriptor: A,
    pub object: A,
    /// The server's heap, and the driver's lists of buffers. Unused arrays would move all others to
    /// other pages.
    pub heap: Option<A>,
    pub tx_slot: Option<A>,
    pub rx_slot: Option<A>,
}

impl Arrays<Array> {
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
        let ring = match structures.ring {
            0 => population.ring,
            ring => ring,
        };
        let descriptor_lines = ring.div_ceil(structures.descriptors_per_line);
        let slot_lines = ring.div_ceil(structures.slots_per_line);
        let mut array = |count: u32, structure: Structure| {
            layout.array(
                count.max(1),
                structures.lines(structure),
                structure.spacing(),
            )
        };
        Self {
            file: array(connections, Structure::File),
            socket: array(connections, Structure::Socket),
            inpcb: array(connections, Structure::Inpcb),
            tcpcb: array(connections, Structure::Tcpcb),
            record: array(connections, Structure::Record),
            pcb_hash: array(structures.pcb_hash, Structure::PcbHash),
            callout: array(structures.callout, Structure::Callout),
            mbuf: array(
                connections.saturating_mul(population.mbufs_per_connection),
                Structure::Mbuf,
            ),
            tx_mbuf: array(structures.tx_mbufs, Structure::TxMbuf),
            tx_descriptor: array(descriptor_lines, Structure::TxDescriptor),
            rx_mbuf: array(structures.rx_buffers, Structure::RxMbuf),
            rx_buffer: array(structures.rx_buffers, Structure::RxBuffer),
            rx_descriptor: array(descriptor_lines, Structure::RxDescriptor),
            object: array(population.objects, Structure::Object),
            heap: (population.has_heap).then(|| array(connections, Structure::Heap)),
            tx_slot: touches(Structure::TxSlot).then(|| array(slot_lines, Structure::TxSlot)),
            rx_slot: touches(Structure::RxSlot).then(|| array(slot_lines, Structure::RxSlot)),
        }
    }

    pub fn place(&self, pages: &PageTable) -> Arrays<Placed> {
        Arrays {
            file: self.file.place(pages),
            socket: self.socket.place(pages),
            inpcb: self.inpcb.place(pages),
            tcpcb: self.tcpcb.place(pages),
            record: self.record.place(pages),
            pcb_hash: self.pcb_hash.place(pages),
            callout: self.callout.place(pages),
            mbuf: self.mbuf.place(pages),
            tx_mbuf: self.tx_mbuf.place(pages),
            tx_descriptor: self.tx_descriptor.place(pages),
            rx_mbuf: self.rx_mbuf.place(pages),
            rx_buffer: self.rx_buffer.place(pages),
            rx_descriptor: self.rx_descriptor.place(pages),
            object: self.object.place(pages),
            heap: self.heap.as_ref().map(|array| array.place(pages)),
            tx_slot: self.tx_slot.as_ref().map(|array| array.place(pages)),
            rx_slot: self.rx_slot.as_ref().map(|array| array.place(pages)),
        }
    }
}
