//! `cadre admin quotas`

use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value, json};

use super::{
    super::{
        client::{Client, segment},
        failure::Failure,
        table,
    },
    lines,
};

/// Show what a tenant may use, or say it
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show them
    Show {
        /// Of which tenant
        tenant: String,
    },
    /// Change some of them; what is not named stays
    Set {
        /// Of which tenant
        tenant: String,
        /// NAME=NUMBER, or NAME=none
        #[arg(required = true, value_name = "NAME=NUMBER", value_parser = quota)]
        quotas: Vec<(String, Option<u64>)>,
    },
}

fn quota(text: &str) -> Result<(String, Option<u64>), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=NUMBER, or NAME=none")?;
    if value == "none" {
        return Ok((name.to_owned(), None));
    }
    let value = value.parse().map_err(|_| format!("{value:?} is neither a whole number nor none"))?;
    Ok((name.to_owned(), Some(value)))
}

/// Does it.
pub fn run(client: &Client, args: Args) -> Result<(), Failure> {
    let path = |tenant: &str| format!("/v1/admin/tenants/{}/quotas", segment(tenant));
    let quotas = match args.action {
        Action::Show { tenant } => client.get(&path(&tenant))?["quotas"].take(),
        Action::Set { tenant, quotas } => {
            let mut wanted = client.get(&path(&tenant))?["quotas"].take();
            for (name, value) in quotas {
                wanted[name] = json!(value);
            }
            client.send("PUT", &path(&tenant), Some(&wanted))?["quotas"].take()
        }
    };
    if client.json {
        return lines(&[quotas]);
    }
    let value = |value: &Value| value.as_u64().map_or_else(|| "none".to_owned(), |value| value.to_string());
    let all = quotas.as_object().into_iter().flatten();
    let rows: Vec<_> = all.map(|(name, quota)| vec![name.clone(), value(quota)]).collect();
    table::print(&["QUOTA", "AT MOST"], &rows)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_a_name_and_a_number() {
        assert_eq!(quota("commandsPerSecond=7"), Ok(("commandsPerSecond".into(), Some(7))));
        assert_eq!(quota("commandsPerSecond=none"), Ok(("commandsPerSecond".into(), None)));
        for bad in
            ["commandsPerSecond", "commandsPerSecond=", "commandsPerSecond=-1", "commandsPerSecond=many"]
        {
            assert!(quota(bad).is_err(), "{bad}");
        }
    }
}
