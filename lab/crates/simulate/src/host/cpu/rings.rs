//! The rings of the NIC's driver: descriptors and buffers of frames.

use perpacket_memory::Line;

use super::{Cpu, ReceiveBuffer};
use crate::host::footprint::{Footprint, Operation, Structure, Structures};
use crate::settings::Machine;

/// The positions in the rings.
pub(super) struct Rings {
    tx_descriptors: u32,
    descriptors_per_line: u32,
    slots_per_line: u32,
    /// When the driver frees the buffers of sent frames. Without a value, this has no cost of its
    /// own.
    cleaning: Option<Cleaning>,
    /// Frames that the NIC has not sent yet when the driver looks for those that it has sent.
    unsent_frames: u32,
    sent: u32,
    /// Sent frames whose buffers are free again.
    cleaned: u32,
    received: u32,
}

/// When the driver frees the buffers of sent frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cleaning {
    /// When it sends another frame.
    AtSend,
    /// In the handler of an interrupt.
    AtInterrupt,
}

impl Rings {
    pub fn new(machine: &Machine, footprints: &[Footprint], structures: &Structures) -> Self {
        let cleaning = if machine.interrupt.is_on {
            Cleaning::AtInterrupt
        } else {
            Cleaning::AtSend
        };
        let clean = &footprints[Operation::DriverClean as usize];
        Self {
            tx_descriptors: structures.tx_descriptors,
            descriptors_per_line: structures.descriptors_per_line,
            slots_per_line: structures.slots_per_line,
            cleaning: (!clean.touches.is_empty()).then_some(cleaning),
            unsent_frames: structures.unsent_frames,
            sent: 0,
            cleaned: 0,
            received: 0,
        }
    }
}

impl Cpu {
    /// The following operations are on the header buffer, the descriptor and the driver's entry of
    /// the next frame to be sent.
    pub fn at_next_send(&mut self) {
        let number = self.rings.sent;
        self.rings.sent = number.wrapping_add(1);
        self.at(Structure::TxDescriptor, self.tx_descriptor(number, 0));
        self.at_sent(number);
    }

    /// The following operations are on the header buffer and the driver's entry of this frame.
    fn at_sent(&mut self, number: u32) {
        self.at(Structure::TxMbuf, number);
        self.at(Structure::TxSlot, number / self.rings.slots_per_line);
    }

    /// The index of the line of a sent frame's descriptor, where `index` counts those of the frame.
    fn tx_descriptor(&self, number: u32, index: u32) -> u32 {
        let rings = &self.rings;
        let descriptor = number
            .wrapping_mul(rings.tx_descriptors)
            .wrapping_add(index);
        descriptor / rings.descriptors_per_line
    }

    /// The NIC marks the descriptors around the last sent frames as done.
    pub fn dma_send_done(&mut self) {
        match self.rings.cleaning {
            Some(Cleaning::AtSend) => self.clean(),
            Some(Cleaning::AtInterrupt) => {}
            None => {
                let line = self.bases[Structure::TxDescriptor as usize];
                self.memory.invalidate(line);
            }
        }
    }

    /// The driver frees the buffers of frames that the NIC has sent. The NIC has written to the last
    /// descriptor of each.
    pub fn clean(&mut self) {
        let rings = &mut self.rings;
        if rings.cleaning.is_none() {
            return;
        }
        let first = rings.cleaned;
        let posted = rings.sent.wrapping_sub(first);
        let count = posted.saturating_sub(rings.unsent_frames);
        rings.cleaned = first.wrapping_add(count);
        let last = rings.tx_descriptors - 1;
        let frames = (0..count).map(|step| first.wrapping_add(step));
        for number in frames.clone() {
            let index = self.tx_descriptor(number, last);
            self.memory
                .invalidate(self.arrays.line(Structure::TxDescriptor, index));
        }
        for number in frames {
            let index = self.tx_descriptor(number, last);
            let line = self.arrays.line(Structure::TxDescriptor, index);
            self.bases[Structure::DoneDescriptor as usize] = line;
            self.at_sent(number);
            self.run(Operation::DriverClean);
        }
    }

    /// The NIC writes a frame of `bytes` and its descriptor to memory; returns its buffer.
    pub fn dma_receive(&mut self, bytes: u32) -> ReceiveBuffer {
        let buffer = self.rings.received;
        self.rings.received = buffer.wrapping_add(1);
        let base = self.arrays.line(Structure::RxBuffer, buffer);
        for line in 0..bytes.div_ceil(64).clamp(1, self.rx_buffer_lines) {
            self.memory.invalidate(Line(base.0 + line));
        }
        let descriptor = buffer / self.rings.descriptors_per_line;
        self.memory
            .invalidate(self.arrays.line(Structure::RxDescriptor, descriptor));
        ReceiveBuffer(buffer)
    }

    /// The following operations are on this received frame.
    pub fn at_received(&mut self, ReceiveBuffer(buffer): ReceiveBuffer) {
        let descriptor = buffer / self.rings.descriptors_per_line;
        let slot = buffer / self.rings.slots_per_line;
        self.at(Structure::RxDescriptor, descriptor);
        self.at(Structure::RxMbuf, buffer);
        self.at(Structure::RxBuffer, buffer);
        self.at(Structure::RxSlot, slot);
    }
}
