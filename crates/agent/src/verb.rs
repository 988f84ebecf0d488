//! The verbs of an executable: each is a [`Spec`] and a function that runs it.
//!
//! [`main`] makes the command line of a list of verbs. Another executable may have more verbs than this
//! one: `perpacket-lab-agent` has those of the lab too.

use std::env;
use std::fs;
use std::io::Read;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use perpacket_spec::{Spec, SpecError, document, schema};
use serde_json::{Map, Value, json};

use crate::output::Output;
use crate::program::{self, OWN, as_typed};
use crate::status::{Failure, Status};

const EXAMPLE: &str = "\
Example: a server, a load on it, and what each of its packets costs:

  perpacket-agent serve web --root site --listen 127.0.0.1:8080
  perpacket-agent load http http://127.0.0.1:8080/index.html --duration 20s
  perpacket-agent profile --duration 10s

The same as a JSON document, for other programs:

  perpacket-agent run '{\"profile\": {\"duration\": \"10s\", \"format\": \"json\"}}'";

/// Shown after the options of `run`.
const RUN_EXAMPLE: &str = "\
Example:
  perpacket-agent run '{\"load http\": {\"url\": \"http://127.0.0.1:8080/\", \"connections\": 8}}'";

/// Runs the verb of parsed arguments.
type Run = Box<dyn Fn(&ArgMatches, &Output) -> Result<Status, Failure>>;

pub struct Verb {
    /// One word, or two: the verb and its group.
    words: &'static str,
    example: &'static str,
    is_hidden: bool,
    command: fn(&'static str) -> Command,
    schema: fn() -> Value,
    run: Run,
}

impl Verb {
    /// A verb that runs a `Spec`. `example` follows the options in the help.
    pub fn new<S: Spec + 'static>(
        words: &'static str,
        example: &'static str,
        run: fn(S, &Output) -> Result<Status, Failure>,
    ) -> Self {
        Self {
            words,
            example,
            is_hidden: false,
            command: perpacket_spec::command::<S>,
            schema: schema::of::<S>,
            run: Box::new(move |matches, output| {
                let spec: S = perpacket_spec::from_matches(matches)?;
                if output.show_config {
                    print!("{}", document::to_toml(&spec)?);
                    return Ok(Status::Done);
                }
                run(spec, output)
            }),
        }
    }

    /// The same, without a line in the help.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    /// The words before the last: the verb's group. Empty without a group.
    fn group(&self) -> &'static str {
        self.words.split_once(' ').map_or("", |(group, _)| group)
    }

    fn command(&self) -> Command {
        let name = self.words.rsplit(' ').next().unwrap_or_default();
        let schema = (self.schema)();
        let command = (self.command)(name)
            .hide(self.is_hidden)
            .after_help(as_typed(self.example))
            .mut_args(|argument| with_needs(argument, &schema));
        let about = command.get_about().cloned().unwrap_or_default();
        Output::augment_args(command).about(about)
    }
}

/// An option whose help names the options that it needs.
fn with_needs(argument: Arg, schema: &Value) -> Arg {
    let key = argument.get_id().as_str().replace('_', "-");
    let needs = schema["properties"][key]["x-needs"].as_str();
    match (needs, argument.get_help()) {
        (Some(needs), Some(help)) => {
            let words = perpacket_spec::needs::words(needs, schema);
            let help = format!("{help} [only with {words}]");
            argument.help(help)
        }
        _ => argument,
    }
}

/// The commands that work on verbs, with the name and the meaning of their argument.
const COMMANDS: [(&str, &str, &str, &str); 3] = [
    (
        "run",
        "DOCUMENT",
        "Run the options of a JSON document",
        "The document, or - for standard input",
    ),
    (
        "parse",
        "WORDS",
        "Print the JSON document of a command line, without its defaults",
        "The command line, such as profile --duration 10s",
    ),
    ("schema", "", "Print the JSON schema of every verb", ""),
];

/// The command line of some verbs. Each group has a name and a line of help.
fn command(groups: &[(&'static str, &'static str)], verbs: &[Verb]) -> Command {
    let mut root = Command::new(OWN)
        .version(env!("CARGO_PKG_VERSION"))
        .about("Servers, loads, links and profiles: perpacket's part beside the server under test")
        .arg_required_else_help(true)
        .subcommand_required(true)
        .after_help(as_typed(EXAMPLE));
    for &(name, about) in groups {
        let own = verbs.iter().filter(|verb| verb.group() == name);
        let mut commands = own.map(Verb::command).peekable();
        if commands.peek().is_none() {
            continue;
        }
        root = match name {
            "" => root.subcommands(commands),
            _ => root.subcommand(
                Command::new(name)
                    .about(about)
                    .hide(about.is_empty())
                    .arg_required_else_help(true)
                    .subcommand_required(true)
                    .subcommands(commands),
            ),
        };
    }
    for (name, argument, about, help) in COMMANDS {
        let mut command = Command::new(name).about(about);
        if name == "run" {
            command = command.after_help(as_typed(RUN_EXAMPLE));
        }
        if !argument.is_empty() {
            command = command.arg(
                Arg::new(argument)
                    .required(true)
                    .num_args(1..)
                    .trailing_var_arg(true)
                    .allow_hyphen_values(true)
                    .help(help),
            );
        }
        root = root.subcommand(command);
    }
    root
}

/// Runs the verb of the command line.
pub fn main(groups: &[(&'static str, &'static str)], verbs: &[Verb]) -> ExitCode {
    match run(groups, verbs) {
        Ok(status) => status.into(),
        Err(failure) => {
            failure.print();
            failure.status.into()
        }
    }
}

fn run(groups: &[(&'static str, &'static str)], verbs: &[Verb]) -> Result<Status, Failure> {
    let mut words: Vec<String> = env::args().collect();
    if let Some(program) = words.first_mut() {
        // Help and usage have the name that the user knows, whatever the file's name.
        *program = program::name().to_owned();
    }
    let command = command(groups, verbs);
    let rest = words.get(2..).unwrap_or_default();
    let is_help = matches!(
        rest.first().map(String::as_str),
        Some("--help" | "-h") | None
    );
    match (words.get(1).map(String::as_str), is_help) {
        (Some("run"), false) => {
            let words = of_document(&command, &rest[0])?;
            run_words(&command, verbs, words)
        }
        (Some("parse"), false) => parse(&command, verbs, rest),
        (Some("schema"), true) if rest.is_empty() => {
            print_json(&schemas(verbs))?;
            Ok(Status::Done)
        }
        _ => run_words(&command, verbs, words),
    }
}

fn run_words(command: &Command, verbs: &[Verb], words: Vec<String>) -> Result<Status, Failure> {
    let words = with_config(command, words)?;
    let matches = command.clone().get_matches_from(words);
    let (words, matches) = innermost(&matches);
    let verb = verbs.iter().find(|verb| verb.words == words);
    // clap accepts no other verb.
    let verb = verb.ok_or_else(|| Failure::usage(format!("{words}: no such verb")))?;
    let output = Output::from_arg_matches(matches).map_err(Failure::usage)?;
    (verb.run)(matches, &output)
}

/// The schemas of all verbs by name.
fn schemas(verbs: &[Verb]) -> Value {
    let shown = verbs.iter().filter(|verb| !verb.is_hidden);
    let each = shown.map(|verb| (verb.words.to_owned(), (verb.schema)()));
    Value::Object(each.collect())
}

/// The arguments of a JSON document: an object with the words of a verb as its only key, such as
/// `{"load http": {"url": "http://h/"}}`.
fn of_document(command: &Command, text: &str) -> Result<Vec<String>, Failure> {
    let mut read = String::new();
    let text = match text {
        "-" => {
            let input = std::io::stdin().read_to_string(&mut read);
            input.map_err(|error| Failure::failed(format!("standard input: {error}")))?;
            &read
        }
        text => text,
    };
    let wrong = |what: String| {
        Failure::usage(format!("document: {what}"))
            .with_hint(format!("`{OWN} run --help` has an example"))
    };
    let document: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| wrong(format!("not a JSON object: {error}")))?;
    let mut entries = document.iter();
    let (Some((words, Value::Object(options))), None) = (entries.next(), entries.next()) else {
        return Err(wrong("expected one verb with its options".to_owned()));
    };
    let verb = words
        .split(' ')
        .try_fold(command, |command, word| command.find_subcommand(word))
        .filter(|verb| !verb.has_subcommands())
        .ok_or_else(|| wrong(format!("{words}: no such verb")))?;
    let arguments = document::arguments(verb, options, None)
        .map_err(|error| in_place(error, &format!("document: {words}"), words))?;
    let verb_words = words.split(' ').map(str::to_owned);
    Ok(std::iter::once(program::name().to_owned())
        .chain(verb_words)
        .chain(arguments.options)
        .chain(arguments.positional)
        .collect())
}

/// Prints the JSON document of a command line. Without output and with status 2, the command line is to be
/// run as it is: it asks for help, or is wrong.
fn parse(command: &Command, verbs: &[Verb], words: &[String]) -> Result<Status, Failure> {
    let program = std::iter::once(program::name().to_owned());
    let Ok(words) = with_config(command, program.chain(words.iter().cloned()).collect()) else {
        return Ok(Status::Usage);
    };
    let Ok(matches) = command.clone().try_get_matches_from(words) else {
        return Ok(Status::Usage);
    };
    let (words, matches) = innermost(&matches);
    let Some(verb) = verbs.iter().find(|verb| verb.words == words) else {
        return Ok(Status::Usage);
    };
    let mut given = Map::new();
    for argument in verb.command().get_arguments() {
        let id = argument.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) || id == "config" {
            continue;
        }
        let values = matches.get_raw(id).into_iter().flatten();
        let mut values: Vec<Value> = values
            .map(|value| value.to_string_lossy().into_owned().into())
            .collect();
        let value = match argument.get_action() {
            clap::ArgAction::SetTrue => true.into(),
            clap::ArgAction::Append => values.into(),
            _ if values.len() > 1 => values.into(),
            _ => values.pop().unwrap_or_default(),
        };
        given.insert(id.replace('_', "-"), value);
    }
    print_json(&json!({ words: given }))?;
    Ok(Status::Done)
}

fn print_json(value: &Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)?;
    crate::output::write(&format!("{text}\n"))
}

/// The arguments with those of the `--config` file, which follow the verb.
fn with_config(command: &Command, mut words: Vec<String>) -> Result<Vec<String>, Failure> {
    let Some(file) = config_of(&words) else {
        return Ok(words);
    };
    // This parse only finds the verb and its options. A later parse reports mistakes.
    let lenient = command.clone().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(&words) else {
        return Ok(words);
    };
    let (path, given) = innermost(&matches);
    let mut parts = path.split(' ').filter(|part| !part.is_empty());
    let Some(verb) = parts.try_fold(command, |command, word| command.find_subcommand(word)) else {
        return Ok(words);
    };
    let text = fs::read_to_string(&file)
        .map_err(|error| Failure::usage(format!("--config {file}: cannot be read: {error}")))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error| Failure::usage(format!("--config {file}: not TOML: {error}")))?;
    let Value::Object(options) = serde_json::to_value(&table).map_err(Failure::failed)? else {
        return Ok(words);
    };
    let added = document::arguments(verb, &options, Some(given))
        .map_err(|error| in_place(error, &format!("--config {file}"), &path))?;
    let depth = 1 + path.split_whitespace().count();
    words.splice(depth..depth, added.options);
    words.extend(added.positional);
    Ok(words)
}

/// The file that `--config` names. Options after `--` belong to another program.
fn config_of(words: &[String]) -> Option<String> {
    let mut own = words.iter().take_while(|word| *word != "--");
    let named = own.find(|word| *word == "--config" || word.starts_with("--config="))?;
    match named.split_once('=') {
        Some((_, file)) => Some(file.to_owned()),
        None => own.next().cloned(),
    }
}

/// An error of a document, with its place and a next step.
fn in_place(error: SpecError, place: &str, verb: &str) -> Failure {
    let help = format!("`{OWN} {verb} --help` lists the options");
    let hint = match error.hint {
        Some(hint) => format!("{hint} {help}"),
        None => help,
    };
    Failure::usage(format!("{place}: {}", error.message)).with_hint(hint)
}

/// The words of the innermost verb, and its arguments.
fn innermost(matches: &ArgMatches) -> (String, &ArgMatches) {
    let (mut words, mut innermost) = (Vec::new(), matches);
    while let Some((name, inner)) = innermost.subcommand() {
        words.push(name);
        innermost = inner;
    }
    (words.join(" "), innermost)
}
