// SPDX-License-Identifier: GPL-2.0-or-later
//! The guest's requests. Each request is one page of memory.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use perpacket_cost::KernelSymbols;
use perpacket_emulate::card::{Card, Family};
use perpacket_emulate::{Guest, Window};
use serde::Serialize;

use crate::api::{
    MemoryInfo, qemu_plugin_get_hwaddr, qemu_plugin_hwaddr_phys_addr, runstate_is_running,
};
use crate::machine::CardBus;
use crate::plugin::Plugin;
use crate::translate::translate_again;

/// Maximum number of bytes of a request's text.
const TEXT_BYTES: usize = 4000;
/// Time between two reads of the machine's state, of the host's clock.
const STOP_POLL: Duration = Duration::from_millis(1);
/// Offsets of the length and of the text.
const LENGTH_AT: u64 = 4;
const TEXT_AT: usize = 56;

/// A line of the results: a window, and how it was watched. No count depends on the latter.
#[derive(Serialize)]
struct ResultLine<'a> {
    #[serde(flatten)]
    window: &'a Window,
    separate_processors: bool,
    foreign_blocks: u64,
}

/// A request as the guest wrote it.
struct Request {
    /// Physical address of the request.
    address: u64,
    operation: u32,
    numbers: [u64; 6],
    text: Vec<u8>,
}

impl Request {
    fn parse(address: u64, page: &[u8; TEXT_AT + TEXT_BYTES]) -> Self {
        let word = |offset: usize| u32::from_le_bytes(std::array::from_fn(|at| page[offset + at]));
        let number =
            |index: usize| u64::from_le_bytes(std::array::from_fn(|at| page[8 + index * 8 + at]));
        let length = (word(4) as usize).min(TEXT_BYTES);
        Self {
            address,
            operation: word(0),
            numbers: std::array::from_fn(number),
            text: page[TEXT_AT..TEXT_AT + length].to_vec(),
        }
    }
}

/// The text up to its first zero byte.
fn label(page: &[u8]) -> String {
    let text = page[TEXT_AT..].split(|byte| *byte == 0).next();
    String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
}

impl Plugin {
    /// Answers the request in the page from which the guest has loaded.
    pub fn answer(&mut self, info: MemoryInfo, address: u64) {
        // SAFETY: queries about an access that QEMU reports, within its callback.
        let physical = unsafe {
            let physical = qemu_plugin_get_hwaddr(info, address);
            if physical.is_null() {
                return;
            }
            qemu_plugin_hwaddr_phys_addr(physical)
        };
        let mut page = [0; TEXT_AT + TEXT_BYTES];
        self.machine().read(physical, &mut page);
        // A request may change the counts that the last block's belong to.
        self.forget_blocks();
        let request = Request::parse(physical, &page);
        match request.operation {
            1 => {
                self.attach();
                let [frames, requests, warmup, function, ..] = request.numbers;
                if requests > 0 {
                    self.counted = (function > 0).then_some(function);
                    let calls = self.counted.is_some();
                    self.observer
                        .start_at_request(label(&page), warmup, requests, calls);
                    if calls {
                        translate_again(self.id);
                    }
                } else {
                    self.observer
                        .start(label(&page), (frames > 0).then_some(frames));
                }
                self.diagnosis.began_s = processor_seconds();
            }
            2 => self.end_window(request),
            3 if request.numbers[0] == 0 && self.options.dump.is_none() => {
                self.append_to_symbols(&request.text);
            }
            3 => self.append_to_dump(request.numbers[0], &request.text),
            4 => eprintln!("perpacket-emulate: mark {}", label(&page)),
            5 => self.send_work(&request),
            6 => self.find_card(&request),
            7 => self.attach(),
            8 => self.reply(&request, u32::from(self.observer.is_frozen()), &[]),
            9 => self.wait_for_stop(),
            10 => self.reply(&request, 8, &self.observer.requests().to_le_bytes()),
            other => self.fail(
                &format!("the guest made request {other}, expected 1 to 10"),
                "use the guest's programs of this version of perpacket",
            ),
        }
    }

    fn reply(&self, request: &Request, length: u32, text: &[u8]) {
        if let Some(machine) = &self.machine {
            machine.write(request.address + LENGTH_AT, &length.to_le_bytes());
            machine.write(request.address + TEXT_AT as u64, text);
        }
    }

    /// Begins to watch the server's processors, unless it is watched already.
    fn attach(&mut self) {
        if self.observer.is_attached() {
            return;
        }
        let separate = self.machine().separate_processors();
        self.diagnosis.separate = separate;
        if let (Some(machine), Some((registers, family))) = (&self.machine, self.registers) {
            self.card = Card::find(&CardBus { machine, registers }, family);
        }
        if let Err(error) = self.observer.attach() {
            self.fail(&error.to_string(), "change l1, l2 or tlb");
        }
        self.forget_all_pages();
        translate_again(self.id);
    }

    fn end_window(&mut self, request: Request) {
        let guest = Guest {
            values: request.numbers,
            text: String::from_utf8_lossy(&request.text).into_owned(),
        };
        let window = self.observer.stop(guest, &self.functions);
        self.is_active = false;
        translate_again(self.id);
        if let Some(error) = self.observer.take_error() {
            self.fail_recording(&error);
        }
        let line = ResultLine {
            window: &window,
            separate_processors: self.diagnosis.separate,
            foreign_blocks: self.diagnosis.foreign_blocks,
        };
        let written = serde_json::to_vec(&line)
            .map_err(io::Error::from)
            .and_then(|line| {
                self.out.write_all(&line)?;
                self.out.write_all(b"\n")
            });
        if let Err(error) = written {
            let path = self.options.out.display().to_string();
            self.fail(&format!("{path}: {error}"), "free space on its file system");
        }
        eprintln!(
            "perpacket-emulate: window {}: {:.3} processor seconds, {} watched blocks run by other \
             processors",
            window.label,
            processor_seconds() - self.diagnosis.began_s,
            self.diagnosis.foreign_blocks
        );
    }

    /// Ends QEMU because the recording is incomplete.
    pub fn fail_recording(&mut self, error: &io::Error) -> ! {
        let path = match &self.options.record {
            Some(path) => path.display().to_string(),
            None => "the recording".to_owned(),
        };
        self.fail(
            &format!("{path}: {error}"),
            "free space on its file system, or record fewer frames",
        )
    }

    /// Appends to the file with the guest's symbols (`file` is 0), types (1) or mappings (2). An
    /// empty text ends the file.
    fn append_to_dump(&mut self, file: u64, text: &[u8]) {
        let path = match file {
            0 => self.options.dump.clone(),
            1 => self.options.dump_types.clone(),
            _ => self.options.maps.clone(),
        };
        let Some(path) = path else {
            return;
        };
        let written = if text.is_empty() {
            self.dump.take().map_or(Ok(()), |mut file| file.flush())
        } else {
            let file = match self.dump.take() {
                Some(file) => Ok(file),
                None => File::create(&path).map(BufWriter::new),
            };
            file.and_then(|file| self.dump.insert(file).write_all(text))
        };
        if let Err(error) = written {
            self.fail(
                &format!("{}: {error}", path.display()),
                "name a file on a file system with space",
            );
        }
    }

    /// Appends to the symbols of a guest that has changed since it was stored. An empty text ends
    /// them, and they replace the stored ones.
    fn append_to_symbols(&mut self, text: &[u8]) {
        if text.is_empty() {
            let symbols = std::mem::take(&mut self.new_symbols);
            self.functions
                .replace_symbols(KernelSymbols::parse(&String::from_utf8_lossy(&symbols)));
        } else {
            self.new_symbols.extend(text);
        }
    }

    /// Sends a part of the work (0) or of the files (1) to the guest.
    fn send_work(&mut self, request: &Request) {
        let mut text = Vec::new();
        let file = match request.numbers[1] {
            0 => self.options.work.clone(),
            _ => self.options.files.clone(),
        };
        if let Some(path) = file {
            let read = File::open(&path).and_then(|mut file| {
                file.seek(SeekFrom::Start(request.numbers[0]))?;
                file.take(TEXT_BYTES as u64).read_to_end(&mut text)
            });
            if let Err(error) = read {
                self.fail(
                    &format!("{}: {error}", path.display()),
                    "name a file that can be read",
                );
            }
        }
        self.reply(request, text.len() as u32, &text);
    }

    /// Blocks the processor until the monitor's command `stop` has begun, so that every machine stops
    /// at the same instruction, whatever the speed of the host.
    fn wait_for_stop(&mut self) {
        eprintln!("perpacket-emulate: ready");
        // SAFETY: QEMU reads one variable.
        while unsafe { runstate_is_running() } {
            std::thread::sleep(STOP_POLL);
        }
        // The command also makes the processor leave its code, but at a time of the host.
        self.machine().end_turn();
    }

    fn find_card(&mut self, request: &Request) {
        let [registers, queues, ..] = request.numbers;
        let family = match queues {
            0 => Family::E1000,
            queues => Family::Igb(queues as usize),
        };
        let machine = self.machine();
        let card = Card::find(&CardBus { machine, registers }, family);
        let is_found = card.is_some();
        if is_found {
            self.registers = Some((registers, family));
            self.card = card;
            self.observer.count_frames();
        }
        self.reply(request, u32::from(is_found), &[]);
    }
}

/// Processor time of this process.
fn processor_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the time to a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
