//! An option that is added to a copy of `load http`'s `Spec` is in its help, its files, its JSON and its
//! schema.

use perpacket_load::http;
use perpacket_spec::{Period, Spec, SpecError, command, document, parse, schema};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

/// The options of `load http` and one more.
#[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
struct Extended {
    #[command(flatten)]
    #[serde(flatten)]
    own: http::Spec,
    /// Pause between two sessions of a client.
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    #[schemars(extend("x-needs" = "rate"))]
    session_pause: Period,
}

impl Spec for Extended {
    fn resolved(mut self) -> Result<Self, SpecError> {
        self.own = self.own.resolved()?;
        Ok(self)
    }
}

#[test]
fn a_new_option_is_in_help_files_json_and_schema() {
    let help = command::<Extended>("http").render_long_help().to_string();
    assert!(help.contains("--session-pause <TIME>"), "{help}");
    assert!(help.contains("[default: 5ms]"), "{help}");

    let spec: Extended = parse("http://h/ --rate 5 --session-pause 1500us").unwrap();
    let file = document::to_toml(&spec).unwrap();
    assert!(file.contains("session-pause = \"1500us\""), "{file}");

    let document = json!({"url": "http://h/", "rate": 5, "session-pause": "1500us"});
    let command = command::<Extended>("http");
    let arguments = document::arguments(&command, document.as_object().unwrap(), None).unwrap();
    let words = [arguments.positional, arguments.options].concat().join(" ");
    let again: Extended = parse(&words).unwrap();
    assert_eq!(document::to_toml(&again).unwrap(), file);

    let schema = schema::of::<Extended>();
    let option = &schema["properties"]["session-pause"];
    assert_eq!(option["default"], "5ms");
    assert_eq!(option["x-unit"], "time");
    let meaning = option["description"].as_str().unwrap();
    assert_eq!(meaning, "Pause between two sessions of a client");

    let error = parse::<Extended>("http://h/ --session-pause 1s").unwrap_err();
    assert!(error.message.contains("without --rate"), "{error}");
    let error = parse::<Extended>("http://h/ --rate 5 --session-pause 0").unwrap_err();
    assert!(error.message.contains("expected more than 0"), "{error}");
}
