//! The table `[session]` of `application.toml`. The other tables are for `perpacket application`,
//! which starts the servers.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::number::Number;
use super::text::Text;
use super::{Application, Extract, Page};

/// Tolerated rounding error of a sum of probabilities.
const ROUNDING: f64 = 1e-9;

#[derive(Deserialize)]
struct File {
    session: SessionTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionTable {
    start: String,
    #[serde(default)]
    think_s: f64,
    #[serde(default)]
    numbers: BTreeMap<String, Number>,
    /// The next pages of each page that has no `next` in its own table.
    next: Option<BTreeMap<String, f64>>,
    page: BTreeMap<String, PageTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageTable {
    path: String,
    #[serde(default)]
    form: BTreeMap<String, String>,
    status: Option<u16>,
    #[serde(default)]
    contains: String,
    #[serde(default)]
    extract: BTreeMap<String, ExtractTable>,
    next: Option<BTreeMap<String, f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtractTable {
    after: String,
    until: String,
}

/// Parses an application's file.
pub(super) fn parse(text: &str) -> Result<Application, String> {
    let File { session } = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut names: Vec<&String> = session.numbers.keys().collect();
    let extracted: BTreeSet<&String> = session
        .page
        .values()
        .flat_map(|page| page.extract.keys())
        .collect();
    names.extend(extracted);
    let page_names: Vec<&String> = session.page.keys().collect();
    let page_number = |name: &String| {
        page_names
            .binary_search(&name)
            .map_err(|_| format!("there is no page {name}, expected one of {page_names:?}"))
    };
    if !(0.0..=3600.0).contains(&session.think_s) {
        return Err(format!(
            "think_s: {}: expected 0 to 3600 seconds",
            session.think_s
        ));
    }
    let value = |name: &str| names.iter().position(|known| *known == name);
    let page = |(name, table): (&String, &PageTable)| {
        let next = table.next.as_ref().or(session.next.as_ref());
        next.ok_or_else(|| "next is missing".to_owned())
            .and_then(|next| page_of(name, table, next, &value, &page_number))
            .map_err(|problem| format!("page.{name}: {problem}"))
    };
    Ok(Application {
        start: page_number(&session.start).map_err(|problem| format!("start: {problem}"))?,
        think_s: session.think_s,
        numbers: session.numbers.values().cloned().collect(),
        values: names.len(),
        pages: session
            .page
            .iter()
            .map(page)
            .collect::<Result<_, String>>()?,
    })
}

fn page_of(
    name: &str,
    table: &PageTable,
    next: &BTreeMap<String, f64>,
    value: &impl Fn(&str) -> Option<usize>,
    page_number: &impl Fn(&String) -> Result<usize, String>,
) -> Result<Page, String> {
    let text = |text: &str| {
        Text::parse(text, value)
            .map_err(|unknown| format!("no number or extract is named {unknown}"))
    };
    if !table.path.starts_with('/') || table.path.contains(|byte: char| byte.is_ascii_whitespace())
    {
        return Err(format!(
            "path is {:?}, expected a slash first and no space",
            table.path
        ));
    }
    let status = table.status.unwrap_or(200);
    let contains = text(&table.contains)?;
    if contains.is_empty() && !(300..400).contains(&status) {
        return Err("contains is missing, expected a text that the right answer has".to_owned());
    }
    let sum: f64 = next.values().sum();
    if next.values().any(|share| *share < 0.0) || sum > 1.0 + ROUNDING {
        return Err(
            "next has wrong probabilities, expected numbers from 0 with a sum up to 1".to_owned(),
        );
    }
    let extract = |(name, place): (&String, &ExtractTable)| {
        if place.after.is_empty() || place.until.is_empty() {
            return Err(format!("extract.{name}: expected texts in after and until"));
        }
        Ok(Extract {
            value: value(name).unwrap_or_default(),
            after: place.after.clone(),
            until: place.until.clone(),
        })
    };
    Ok(Page {
        name: name.to_owned(),
        path: text(&table.path)?,
        form: table
            .form
            .iter()
            .map(|(name, field)| Ok((name.clone(), text(field)?)))
            .collect::<Result<_, String>>()?,
        status,
        contains,
        extract: table
            .extract
            .iter()
            .map(extract)
            .collect::<Result<_, _>>()?,
        next: next
            .iter()
            .map(|(name, share)| Ok((page_number(name)?, *share)))
            .collect::<Result<_, String>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        title = "one page"
        [session]
        start = "front"
        page.front = { path = "/", contains = "hello", next = { front = 0.5 } }
    "#;

    #[test]
    fn an_error_names_the_page_and_the_key() {
        assert!(parse(SMALL).is_ok());
        for (old, new, problem) in [
            ("start = \"front\"", "start = \"back\"", "no page back"),
            ("front = 0.5", "front = 1.5", "a sum up to 1"),
            ("front = 0.5", "shop = 0.5", "no page shop"),
            (", next = { front = 0.5 }", "", "next is missing"),
            ("hello", "@user@", "named user"),
            ("contains = \"hello\", ", "", "contains is missing"),
            ("path = \"/\"", "path = \"a\"", "a slash first"),
            ("contains", "content", "unknown field"),
        ] {
            let error = parse(&SMALL.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
