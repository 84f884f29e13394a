//! Completion scripts and man pages, of the arguments themselves.

use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Program;

/// The completion script of a shell.
pub(crate) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut Program::arguments(),
        "ratelimit-admin",
        &mut script,
    );
    String::from_utf8_lossy(&script).into_owned()
}

/// The man page of the program, or of one of its subcommands.
pub(crate) fn man(subcommand: Option<&str>) -> Result<String, String> {
    let mut command = Program::arguments();
    command.build();
    if let Some(name) = subcommand {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| format!("there is no subcommand {name:?}"))?;
        command = command.name(format!("ratelimit-admin-{name}"));
    }
    let mut page = Vec::new();
    Man::new(command)
        .render(&mut page)
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
