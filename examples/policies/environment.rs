//! Policies from the environment, which do not change while the process runs.

use ratelimit_runtime::{ParseError, Policy};

/// `RATELIMIT_POLICY_LOGIN="token_bucket 5/1m burst 20"` is the policy `login`.
pub(crate) fn read() -> Result<Vec<(String, Policy)>, String> {
    let mut policies = Vec::new();
    for (variable, text) in std::env::vars_os() {
        let (variable, text) = (variable.to_string_lossy(), text.to_string_lossy());
        if let Some(name) = variable.strip_prefix("RATELIMIT_POLICY_") {
            let policy = text
                .parse()
                .map_err(|error: ParseError| format!("{variable}: {error}"))?;
            policies.push((name.to_lowercase(), policy));
        }
    }
    Ok(policies)
}
