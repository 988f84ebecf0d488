//! Rules that assign functions and files to layers, kinds and categories: small TOML files.
//!
//! Each new kernel changes many symbol names, but few prefixes. So the compiled-in files contain
//! prefixes, which are compared with the functions of the call chain. A user's file has priority
//! over them. Comments in the files explain the tables.

use std::collections::HashMap;

use serde::Deserialize;
use toml::Spanned;

use crate::category::Category;
use crate::direction::Direction;
use crate::event::Kind;
use crate::layer::Layer;

const LAYERS: &str = include_str!("../data/layers.toml");
const KINDS: &str = include_str!("../data/kinds.toml");
const PROGRAMS: &str = include_str!("../data/programs.toml");
const PARTS: &str = include_str!("../data/parts.toml");

/// A mistake in a file of rules or events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {message}")]
pub struct RuleError {
    /// The file, or the name of a compiled-in file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The fault, and what was expected.
    pub message: String,
}

/// The layer and the category that a rule assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub layer: Layer,
    /// The category of *Communication Breakdown*.
    pub category: Category,
}

impl Owner {
    /// The owner of network drivers: functions that a [`FunctionClass::driver_caller`] calls, and
    /// modules of network interfaces.
    pub const DRIVER: Self = Self {
        layer: Layer::Driver,
        category: Category::NicDriver,
    };

    /// The owner of code that runs after an interrupt's entry.
    pub const INTERRUPT: Self = Self {
        layer: Layer::Interrupt,
        category: Category::KernelInterrupt,
    };
}

/// What the rules list about one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionClass {
    /// The layer and category of the function.
    pub owner: Option<Owner>,
    /// The kind of work of the function.
    pub kind: Option<Kind>,
    /// The direction of the packet for which the function works.
    pub direction: Option<Direction>,
    /// Whether samples of a timer appear in this function although they belong to other code.
    pub skid: bool,
    /// Whether an interrupt or softirq begins at this function.
    pub interrupt_entry: bool,
    /// Whether the function calls network drivers.
    pub driver_caller: bool,
    /// Whether a kernel thread begins at this function. The search for a layer ends here.
    pub dead_end: bool,
}

/// Rules of one or more files. The first file that lists a name applies.
#[derive(Clone, Debug)]
pub struct Rules {
    files: Vec<RuleFile>,
}

impl Rules {
    /// The compiled-in rules.
    ///
    /// # Errors
    /// A compiled-in file has a mistake. A test ensures that this does not happen.
    pub fn builtin() -> Result<Self, RuleError> {
        let files = [
            ("layers.toml", LAYERS),
            ("kinds.toml", KINDS),
            ("programs.toml", PROGRAMS),
            ("parts.toml", PARTS),
        ];
        Ok(Self {
            files: files
                .into_iter()
                .map(|(name, text)| RuleFile::parse(name, text))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The rules of a file's text, followed by the compiled-in ones. `name` is for errors.
    ///
    /// # Errors
    /// A line of the text has a mistake.
    pub fn with_file(name: &str, text: &str) -> Result<Self, RuleError> {
        let mut rules = Self::builtin()?;
        rules.files.insert(0, RuleFile::parse(name, text)?);
        Ok(rules)
    }

    /// The class of a kernel function. `module` is `None` for a built-in function.
    pub fn function(&self, name: &str, module: Option<&str>) -> FunctionClass {
        let is_listed = |table: fn(&RuleFile) -> &Patterns<()>| {
            self.files
                .iter()
                .any(|file| table(file).find(name).is_some())
        };
        let by_name = self.files.iter().find_map(|file| file.layers.find(name));
        let by_module = || {
            let module = module?;
            self.files.iter().find_map(|file| file.modules.find(module))
        };
        FunctionClass {
            owner: by_name.or_else(by_module).copied(),
            kind: self
                .files
                .iter()
                .find_map(|file| file.kinds.find(name))
                .copied(),
            direction: self
                .files
                .iter()
                .find_map(|file| file.directions.find(name))
                .copied(),
            skid: is_listed(|file| &file.skid),
            interrupt_entry: is_listed(|file| &file.interrupt_entry),
            driver_caller: is_listed(|file| &file.driver_callers),
            dead_end: is_listed(|file| &file.dead_ends),
        }
    }

    /// The part of an application to which a rule assigns code with this property, if there is such
    /// a rule.
    pub fn part(&self, clue: Clue<'_>) -> Option<&str> {
        let find = |file: &'_ RuleFile| -> Option<usize> {
            let parts = &file.parts;
            let number = match clue {
                Clue::Thread(name) => parts.threads.find(name),
                Clue::Generated(name) => parts.generated.find(name),
                Clue::Function(name) => parts.functions.find(name),
                Clue::File(path) => {
                    let name = path.rsplit('/').next().unwrap_or(path);
                    let in_folder = || {
                        let known = parts.folders.iter();
                        known
                            .rev()
                            .find(|(folder, _)| path.contains(folder.as_str()))
                    };
                    parts
                        .objects
                        .find(name)
                        .or_else(|| in_folder().map(|(_, number)| number))
                }
            };
            number.copied()
        };
        let part = |file| find(file).map(|number| file.parts.names[number].as_str());
        self.files.iter().find_map(part)
    }

    /// The category that a rule assigns to user code in a file with this name, if there is such a
    /// rule.
    pub fn object(&self, name: &str) -> Option<Category> {
        self.files
            .iter()
            .find_map(|file| file.programs.find(name))
            .copied()
    }
}

/// A property of user code by which a rule assigns the code to a part of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clue<'a> {
    /// The name of the thread.
    Thread(&'a str),
    /// The name of code compiled at run time: a class with its method, or a routine.
    Generated(&'a str),
    /// The path of the file.
    File(&'a str),
    /// The name of the function.
    Function(&'a str),
}

/// Names and prefixes with their values. An exact name has priority over the longest prefix.
#[derive(Clone, Debug)]
struct Patterns<T> {
    exact: HashMap<String, T>,
    prefixes: Vec<(String, T)>,
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            prefixes: Vec::new(),
        }
    }
}

impl<T> Patterns<T> {
    /// Adds a pattern. The error states the fault of the pattern.
    fn add(&mut self, pattern: &str, value: T) -> Result<(), String> {
        let (stem, is_prefix) = match pattern.strip_suffix('*') {
            Some(stem) => (stem, true),
            None => (pattern, false),
        };
        // Go's methods of pointers have a star of their own: `runtime.(*mspan).sweep`.
        let has_inner_star = stem.replace("(*", "").contains('*');
        if (stem.is_empty() && !is_prefix) || has_inner_star {
            return Err(format!("`{pattern}`: expected a name, or a prefix and `*`"));
        }
        let is_repeated = if is_prefix {
            let is_repeated = self.prefixes.iter().any(|(known, _)| known == stem);
            self.prefixes.push((stem.to_owned(), value));
            is_repeated
        } else {
            self.exact.insert(stem.to_owned(), value).is_some()
        };
        if is_repeated {
            return Err(format!("`{pattern}` is listed twice; expected it once"));
        }
        Ok(())
    }

    /// Sorts the longest prefix first, so that `find` returns the longest match.
    fn sort(&mut self) {
        self.prefixes
            .sort_by_key(|(stem, _)| std::cmp::Reverse(stem.len()));
    }

    fn find(&self, name: &str) -> Option<&T> {
        self.exact.get(name).or_else(|| {
            self.prefixes
                .iter()
                .find(|(stem, _)| name.starts_with(stem.as_str()))
                .map(|(_, value)| value)
        })
    }
}

#[derive(Clone, Debug, Default)]
struct RuleFile {
    layers: Patterns<Owner>,
    modules: Patterns<Owner>,
    kinds: Patterns<Kind>,
    directions: Patterns<Direction>,
    skid: Patterns<()>,
    interrupt_entry: Patterns<()>,
    driver_callers: Patterns<()>,
    dead_ends: Patterns<()>,
    programs: Patterns<Category>,
    parts: PartRules,
}

/// The rules for parts of applications. Values are indices of `names`.
#[derive(Clone, Debug, Default)]
struct PartRules {
    names: Vec<String>,
    threads: Patterns<usize>,
    generated: Patterns<usize>,
    objects: Patterns<usize>,
    /// Folders, as parts of paths.
    folders: Vec<(String, usize)>,
    functions: Patterns<usize>,
}

type Names = Vec<Spanned<String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    layers: Vec<LayerTable>,
    #[serde(default)]
    boundaries: BoundaryTable,
    #[serde(default)]
    directions: DirectionTable,
    #[serde(default)]
    kinds: Vec<KindTable>,
    #[serde(default)]
    skid: SkidTable,
    #[serde(default)]
    programs: Vec<ProgramTable>,
    #[serde(default)]
    parts: Vec<PartTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartTable {
    part: String,
    #[serde(default)]
    threads: Names,
    #[serde(default)]
    generated: Names,
    #[serde(default)]
    objects: Names,
    #[serde(default)]
    folders: Vec<String>,
    #[serde(default)]
    functions: Names,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerTable {
    layer: Spanned<String>,
    category: Option<Spanned<String>>,
    #[serde(default)]
    functions: Names,
    #[serde(default)]
    modules: Names,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BoundaryTable {
    interrupt_entry: Names,
    driver_callers: Names,
    dead_ends: Names,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DirectionTable {
    send: Names,
    receive: Names,
    neither: Names,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindTable {
    kind: Spanned<String>,
    functions: Names,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SkidTable {
    functions: Names,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramTable {
    category: Spanned<String>,
    objects: Names,
}

/// A file's name and text, for errors with a line number.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    /// The error of the line at a byte offset of the text.
    pub fn error_at(&self, offset: usize, message: String) -> RuleError {
        let before = self.text.as_bytes().iter().take(offset);
        RuleError {
            file: self.name.to_owned(),
            line: 1 + before.filter(|&&byte| byte == b'\n').count(),
            message,
        }
    }

    /// Parses the text as TOML.
    ///
    /// # Errors
    /// The text is not valid TOML, or does not have the fields of `T`.
    pub fn parse<T: for<'de> Deserialize<'de>>(&self) -> Result<T, RuleError> {
        toml::from_str(self.text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            self.error_at(offset, error.message().to_owned())
        })
    }

    /// Finds a name in a fixed set.
    ///
    /// # Errors
    /// The name is not in the set.
    pub fn one_of<T>(
        &self,
        name: &Spanned<String>,
        what: &str,
        find: impl Fn(&str) -> Option<T>,
        all: impl Iterator<Item = &'static str>,
    ) -> Result<T, RuleError> {
        find(name.get_ref()).ok_or_else(|| {
            let expected: Vec<_> = all.collect();
            self.error_at(
                name.span().start,
                format!(
                    "no {what} is called `{}`; expected one of {}",
                    name.get_ref(),
                    expected.join(", ")
                ),
            )
        })
    }

    fn add_all<T: Copy>(
        &self,
        patterns: &mut Patterns<T>,
        names: &Names,
        value: T,
    ) -> Result<(), RuleError> {
        for name in names {
            patterns
                .add(name.get_ref(), value)
                .map_err(|message| self.error_at(name.span().start, message))?;
        }
        patterns.sort();
        Ok(())
    }

    fn category(&self, name: &Spanned<String>) -> Result<Category, RuleError> {
        let all = Category::ALL.iter().map(|category| category.name());
        self.one_of(name, "category", Category::from_name, all)
    }
}

impl RuleFile {
    fn parse(name: &str, text: &str) -> Result<Self, RuleError> {
        let source = Source { name, text };
        let document: Document = source.parse()?;
        let mut file = Self::default();
        for table in &document.layers {
            let all = Layer::ALL.iter().map(|layer| layer.name());
            let layer = source.one_of(&table.layer, "layer", Layer::from_name, all)?;
            let category = match &table.category {
                Some(name) => source.category(name)?,
                None => Category::of(layer),
            };
            let owner = Owner { layer, category };
            source.add_all(&mut file.layers, &table.functions, owner)?;
            source.add_all(&mut file.modules, &table.modules, owner)?;
        }
        for table in &document.kinds {
            let all = Kind::ALL.iter().map(|kind| kind.name());
            let kind = source.one_of(&table.kind, "kind", Kind::from_name, all)?;
            source.add_all(&mut file.kinds, &table.functions, kind)?;
        }
        for table in &document.programs {
            let category = source.category(&table.category)?;
            source.add_all(&mut file.programs, &table.objects, category)?;
        }
        for (number, table) in document.parts.into_iter().enumerate() {
            let parts = &mut file.parts;
            source.add_all(&mut parts.threads, &table.threads, number)?;
            source.add_all(&mut parts.generated, &table.generated, number)?;
            source.add_all(&mut parts.objects, &table.objects, number)?;
            source.add_all(&mut parts.functions, &table.functions, number)?;
            let folders = table.folders.into_iter();
            parts.folders.extend(folders.map(|folder| (folder, number)));
            parts.names.push(table.part);
        }
        let directions = &document.directions;
        for (direction, functions) in [
            (Direction::Send, &directions.send),
            (Direction::Receive, &directions.receive),
            (Direction::Neither, &directions.neither),
        ] {
            source.add_all(&mut file.directions, functions, direction)?;
        }
        let boundaries = &document.boundaries;
        source.add_all(&mut file.skid, &document.skid.functions, ())?;
        source.add_all(&mut file.interrupt_entry, &boundaries.interrupt_entry, ())?;
        source.add_all(&mut file.driver_callers, &boundaries.driver_callers, ())?;
        source.add_all(&mut file.dead_ends, &boundaries.dead_ends, ())?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        RuleFile::parse("mine.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn the_compiled_in_files_are_valid() {
        Rules::builtin().unwrap();
    }

    #[test]
    fn the_longest_pattern_names_the_layer() {
        let rules = Rules::builtin().unwrap();
        let layer = |name| rules.function(name, None).owner.map(|owner| owner.layer);
        assert_eq!(layer("tcp_v4_rcv"), Some(Layer::Tcp));
        assert_eq!(layer("inet_sendmsg"), Some(Layer::Socket));
        assert_eq!(layer("inet_csk_accept"), Some(Layer::Tcp));
        assert_eq!(layer("inet_gro_receive"), Some(Layer::Ip));
        assert_eq!(layer("filemap_read"), Some(Layer::Other));
        assert_eq!(layer("kmem_cache_free"), None);
    }

    #[test]
    fn a_driver_modules_function_is_driver_code_unless_a_rule_lists_it() {
        let rules = Rules::builtin().unwrap();
        let layer = |name| {
            let class = rules.function(name, Some("mlx5_core"));
            class.owner.map(|owner| owner.layer)
        };
        assert_eq!(layer("an_unknown_function"), Some(Layer::Driver));
        assert_eq!(layer("tcp_helper"), Some(Layer::Tcp));
    }

    #[test]
    fn enabling_interrupts_again_is_not_a_lock_cost() {
        let class = Rules::builtin()
            .unwrap()
            .function("_raw_spin_unlock_irqrestore", None);
        assert!(class.skid);
        assert_eq!(class.kind, None);
    }

    #[test]
    fn a_clue_shows_the_part_of_an_application() {
        let rules = Rules::builtin().unwrap();
        for (clue, part) in [
            (Clue::Thread("C2 CompilerThre"), Some("jit compiler")),
            (Clue::Thread("http-nio-exec-1"), None),
            (Clue::Generated("Interpreter"), Some("jvm interpreter")),
            (
                Clue::Generated("org.apache.catalina.core.StandardHost.x"),
                Some("application server"),
            ),
            (Clue::Generated("com.example.Shop.buy"), Some("application")),
            (Clue::File("/usr/lib/libperl.so.5.36.0"), Some("perl")),
            (
                Clue::File("/usr/lib/x86_64-linux-gnu/perl5/5.36/auto/DBI/DBI.so"),
                Some("perl"),
            ),
            (
                Clue::File("/usr/lib/php/20220829/opcache.so"),
                Some("php opcache"),
            ),
            (
                Clue::File("/usr/lib/postgresql/15/lib/llvmjit.so"),
                Some("database"),
            ),
            (Clue::File("/opt/shop/shop.so"), None),
            (
                Clue::Function("runtime.(*mspan).sweep"),
                Some("garbage collector"),
            ),
            (
                Clue::Function("rustls::conn::ConnectionCommon"),
                Some("tls"),
            ),
        ] {
            assert_eq!(rules.part(clue), part, "{clue:?}");
        }
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        let text = "[[layers]]\nlayer = \"tpc\"\nfunctions = [\"tcp_*\"]\n";
        assert!(error(text).starts_with("mine.toml, line 2: no layer is called `tpc`"));
        let text = "[[layers]]\nlayer = \"tcp\"\nfunctions = [\n  \"a\",\n  \"t*p\"]\n";
        assert!(error(text).starts_with("mine.toml, line 5: `t*p`"));
        let text = "[[layers]]\nlayer = \"tcp\"\n\nfunction = []\n";
        assert!(
            error(text).starts_with("mine.toml, line 4: "),
            "{}",
            error(text)
        );
        let text = "[skid]\nfunctions = [\"a\",\n\"a\"]\n";
        assert!(error(text).starts_with("mine.toml, line 3: `a` is listed twice"));
    }
}
