//! Where the policies come from: a file of TOML or JSON, and the environment.

use std::collections::HashMap;
use std::path::Path;

use ratelimit_runtime::{ParseError, Policy};

pub(crate) type Policies = HashMap<String, Policy>;

/// Those that the attributes of this program name: all of them, and no other, so that a slip of the
/// pen takes no limit away.
const NAMES: [&str; 2] = ["login", "search"];

/// The policies of the file, and those of the environment in place of them; or what is wrong, and
/// where.
pub(crate) fn read(file: Option<&Path>) -> Result<Policies, String> {
    let place = file.map_or("the environment".into(), Path::to_string_lossy);
    let wrong = |why: String| format!("{place}: {}", why.trim_end());
    let mut policies = file.map_or(Ok(Policies::new()), of_file).map_err(wrong)?;
    policies.extend(of_environment()?);
    if let Some(unknown) = policies.keys().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(wrong(format!("there is no use for a policy `{unknown}`, but for {}", NAMES.join(", "))));
    }
    match NAMES.into_iter().find(|name| !policies.contains_key(*name)) {
        Some(missing) => Err(wrong(format!("the policy `{missing}` is missing"))),
        None => Ok(policies),
    }
}

fn of_file(file: &Path) -> Result<Policies, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => toml::from_str(&text).map_err(|error| error.to_string()),
        Some("json") => serde_json::from_str(&text).map_err(|error| error.to_string()),
        _ => Err("its name ends in neither .toml nor .json".to_owned()),
    }
}

/// `RATELIMIT_POLICY_LOGIN="token_bucket 5/1m burst 20"` is the policy `login`.
fn of_environment() -> Result<Policies, String> {
    let mut policies = Policies::new();
    for (variable, text) in std::env::vars_os() {
        let (variable, text) = (variable.to_string_lossy(), text.to_string_lossy());
        if let Some(name) = variable.strip_prefix("RATELIMIT_POLICY_") {
            let policy = text.parse().map_err(|error: ParseError| format!("{variable}: {error}"))?;
            policies.insert(name.to_lowercase(), policy);
        }
    }
    Ok(policies)
}
