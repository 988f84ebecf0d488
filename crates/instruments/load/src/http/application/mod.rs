//! The sessions of an application: random walks through its pages, from `application.toml`.
//!
//! Each client is a state machine. A page is a state: its request, the text of a right answer, and
//! the probabilities of the next pages. `client` has the state of one client: cookies, and texts
//! extracted from earlier answers.

mod client;
mod file;
mod number;
mod text;

use std::path::Path;

use perpacket_workload::Stream;

pub(crate) use client::Client;
use number::Number;
use text::Text;

use super::session::{Operation, SessionRequest};
use crate::error::LoadError;

/// The pages of an application, and how its clients walk through them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Application {
    /// Number of the first page.
    start: usize,
    /// Mean of the exponential pause before each page but the first, in seconds.
    think_s: f64,
    /// The random numbers of a page. A client's values begin with these numbers.
    numbers: Vec<Number>,
    /// Number of values of a client: the numbers, then the extracted texts.
    values: usize,
    pages: Vec<Page>,
}

/// The values of a thread that no session uses now, for each number that must be unique to a
/// session.
#[derive(Debug)]
pub(crate) struct FreeValues(Vec<Vec<i64>>);

#[derive(Clone, Debug, PartialEq)]
struct Page {
    name: String,
    path: Text,
    form: Vec<(String, Text)>,
    status: u16,
    /// A text that a right answer contains.
    contains: Text,
    extract: Vec<Extract>,
    /// Each next page and its probability.
    next: Vec<(usize, f64)>,
}

/// A text of an answer that later requests use.
#[derive(Clone, Debug, PartialEq)]
struct Extract {
    value: usize,
    after: String,
    until: String,
}

impl Application {
    /// Reads the table `[session]` of an application's file.
    ///
    /// # Errors
    /// The file cannot be read, or a key is not as expected. The error names the key.
    pub(crate) fn read(file: &Path) -> Result<Self, LoadError> {
        let text = std::fs::read_to_string(file).map_err(LoadError::file(file))?;
        file::parse(&text)
            .map_err(|problem| LoadError::Usage(format!("{}: {problem}", file.display())))
    }

    /// The names of the pages.
    pub(crate) fn names(&self) -> Vec<String> {
        self.pages.iter().map(|page| page.name.clone()).collect()
    }

    /// Maximum number of clients at a time, so that each client has unique values for its unique
    /// numbers.
    pub(crate) fn max_clients(&self) -> f64 {
        let alone = self.numbers.iter().filter(|number| number.alone);
        alone.map(Number::count).fold(f64::INFINITY, f64::min)
    }

    /// The values of a thread for the numbers that are unique to a session: every `step`-th value,
    /// starting at `place`.
    pub(crate) fn free_values(&self, place: u32, step: u32) -> FreeValues {
        let values = |number: &Number| match number.alone {
            true => number.every(place, step),
            false => Vec::new(),
        };
        FreeValues(self.numbers.iter().map(values).collect())
    }

    /// The first request of a new client.
    pub(crate) fn first(
        &self,
        client: &mut Client,
        random: &mut Stream,
        free: &mut FreeValues,
    ) -> SessionRequest {
        for (number, value) in client.alone.drain(..) {
            free.0[number].push(value);
        }
        client.begin(self.values);
        for (number, free) in free.0.iter_mut().enumerate() {
            if !free.is_empty() {
                let place = (random.uniform() * free.len() as f64) as usize;
                let value = free.swap_remove(place.min(free.len() - 1));
                client.values[number] = value.to_string().into_bytes();
                client.alone.push((number, value));
            }
        }
        self.request(self.start, client, random, 0.0)
    }

    /// The request for the page that follows `page`. `None` ends the session.
    pub(crate) fn next(
        &self,
        page: u32,
        client: &mut Client,
        random: &mut Stream,
    ) -> Option<SessionRequest> {
        let mut drawn = random.uniform();
        for (next, share) in &self.pages[page as usize].next {
            drawn -= share;
            if drawn < 0.0 {
                return Some(self.request(*next, client, random, self.think_s));
            }
        }
        None
    }

    fn request(
        &self,
        page: usize,
        client: &mut Client,
        random: &mut Stream,
        think_s: f64,
    ) -> SessionRequest {
        client.draw(&self.numbers, random);
        let pause_s = if think_s > 0.0 {
            think_s * random.exponential()
        } else {
            0.0
        };
        SessionRequest {
            object: page as u32,
            operation: match self.pages[page].form.is_empty() {
                true => Operation::Get,
                false => Operation::Post,
            },
            due_ns: (pause_s * 1e9) as u64,
            ..SessionRequest::default()
        }
    }

    /// Writes a request up to the end of its cookies. `fields` follow the path. Returns the body.
    pub(crate) fn write(
        &self,
        buffer: &mut Vec<u8>,
        page: u32,
        client: &Client,
        prefix: &str,
        fields: &[u8],
    ) -> Vec<u8> {
        let page = &self.pages[page as usize];
        let method: &[u8] = if page.form.is_empty() {
            b"GET "
        } else {
            b"POST "
        };
        buffer.extend_from_slice(method);
        buffer.extend_from_slice(prefix.as_bytes());
        page.path.write(buffer, &client.values, text::path_byte);
        buffer.extend_from_slice(fields);
        client.write_cookies(buffer);
        let mut body = Vec::new();
        for (name, value) in &page.form {
            if !body.is_empty() {
                body.push(b'&');
            }
            Text::literal(name).write_encoded(&mut body, &[]);
            body.push(b'=');
            value.write_encoded(&mut body, &client.values);
        }
        body
    }

    /// The status of the right answer of a page.
    pub(crate) fn status(&self, page: u32) -> u16 {
        self.pages[page as usize].status
    }

    /// Extracts texts from the answer to a page. The error describes what the answer lacks.
    ///
    /// # Errors
    /// The answer lacks the text that a right answer contains.
    pub(crate) fn accept(
        &self,
        page: u32,
        answer: &[u8],
        client: &mut Client,
    ) -> Result<(), String> {
        let page = &self.pages[page as usize];
        let mut wanted = Vec::new();
        page.contains
            .write(&mut wanted, &client.values, text::as_it_is);
        if !contains(answer, &wanted) {
            return Err(format!(
                "{} bytes without {:?}: {:?}",
                answer.len(),
                String::from_utf8_lossy(&wanted),
                beginning(answer)
            ));
        }
        for place in &page.extract {
            let Some(value) = between(answer, place.after.as_bytes(), place.until.as_bytes())
            else {
                return Err(format!(
                    "no text between {:?} and {:?}",
                    place.after, place.until
                ));
            };
            client.values[place.value] = value.to_vec();
        }
        Ok(())
    }

    pub(crate) fn name(&self, page: u32) -> &str {
        &self.pages[page as usize].name
    }
}

/// Maximum number of characters of an answer that an error quotes.
const SHOWN: usize = 80;

fn beginning(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer)
        .chars()
        .take(SHOWN)
        .collect()
}

fn contains(answer: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(answer, wanted).is_some()
}

/// The bytes between the first `after` and the next `until`.
fn between<'a>(answer: &'a [u8], after: &[u8], until: &[u8]) -> Option<&'a [u8]> {
    let begin = memchr::memmem::find(answer, after)? + after.len();
    let rest = &answer[begin..];
    Some(&rest[..memchr::memmem::find(rest, until)?])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const USERS: &str = r#"
        [session]
        start = "front"
        numbers.user = { first = 10, last = 16, alone = true }
        page.front = { path = "/@user@", contains = "hello", next = {} }
    "#;

    #[test]
    fn no_two_sessions_have_a_number_that_each_has_alone() {
        let application = file::parse(USERS).unwrap();
        assert_eq!(application.max_clients(), 7.0);
        let mut random = Stream::new(1, "walks of clients");
        // Three clients in one thread, and two in each of two other threads, use all seven values.
        let mut threads: Vec<(FreeValues, Vec<Client>)> = [3, 2, 2]
            .iter()
            .zip(0..)
            .map(|(&clients, thread)| {
                (
                    application.free_values(thread, 3),
                    vec![Client::default(); clients],
                )
            })
            .collect();
        for _ in 0..100 {
            for (free, clients) in &mut threads {
                for client in clients {
                    application.first(client, &mut random, free);
                    client.draw(&application.numbers, &mut random);
                }
            }
            let held: BTreeSet<&Vec<u8>> = threads
                .iter()
                .flat_map(|(_, clients)| clients.iter().map(|client| &client.values[0]))
                .collect();
            assert_eq!(held.len(), 7, "{held:?}");
        }
    }
}
