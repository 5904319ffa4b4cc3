//! `cadre admin keys`

use std::{
    io::{self, Write},
    time::Duration,
};

use cadre::fact::Time;
use cadre_cluster::clock::{Clock, SystemClock};
use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value, json};

use super::{
    super::{
        client::{Client, segment},
        duration,
        failure::Failure,
        table,
    },
    all, lines, text, time,
};

/// List the keys of a tenant, make one, take one back, replace one
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them
    List {
        /// Of which tenant
        tenant: String,
    },
    /// Make one and print it: it is not shown again
    Create {
        /// Of which tenant
        tenant: String,
        /// What facts call whoever uses it
        #[arg(long)]
        name: String,
        /// What it may do: read, submit, approve, run, admin [default: read,submit,approve]
        #[arg(long, value_delimiter = ',')]
        scopes: Option<Vec<String>>,
        /// How long it is good for: 12h, 90d [default: until it is revoked]
        #[arg(long, value_name = "TIME", value_parser = duration::parse)]
        expires_in: Option<Duration>,
    },
    /// Show one, without its secret
    Show {
        /// Of which tenant
        tenant: String,
        /// Which: the part between `cadre_` and the next `_`
        key: String,
    },
    /// Take one back, within a second everywhere
    Revoke {
        /// Of which tenant
        tenant: String,
        /// Which
        key: String,
    },
    /// Replace one by another of the same name and scopes, and print that
    Rotate {
        /// Of which tenant
        tenant: String,
        /// Which
        key: String,
        /// How long the old one is still good
        #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration::parse)]
        grace: Duration,
    },
}

/// Does it.
pub fn run(client: &Client, args: Args) -> Result<(), Failure> {
    let of_tenant = |tenant: &str| format!("/v1/admin/tenants/{}/keys", segment(tenant));
    let of_key = |tenant: &str, key: &str| format!("{}/{}", of_tenant(tenant), segment(key));
    let answer = match args.action {
        Action::List { tenant } => return list(client, &of_tenant(&tenant)),
        Action::Create { tenant, name, scopes, expires_in } => {
            let expires = expires_in.map(|duration| Time(SystemClock.now().after(duration)));
            let body = json!({ "name": name, "scopes": scopes, "expiresAt": expires });
            client.send("POST", &of_tenant(&tenant), Some(&body))?
        }
        Action::Show { tenant, key } => client.get(&of_key(&tenant, &key))?,
        Action::Revoke { tenant, key } => client.send("DELETE", &of_key(&tenant, &key), None)?,
        Action::Rotate { tenant, key, grace } => {
            let body = json!({ "graceSeconds": grace.as_secs() });
            client.send("POST", &format!("{}/rotate", of_key(&tenant, &key)), Some(&body))?
        }
    };
    if client.json {
        return lines(&[answer]);
    }
    let key = &answer["key"];
    if let Some(token) = answer["token"].as_str() {
        writeln!(io::stdout(), "{token}")?;
        eprintln!("cadre: key {} of {}; it is not shown again", text(key, "keyId"), text(key, "tenantId"));
    } else {
        table::print(&HEAD, &[row(key)])?;
    }
    Ok(())
}

const HEAD: [&str; 6] = ["KEY", "STATUS", "SCOPES", "CREATED", "EXPIRES", "NAME"];

fn list(client: &Client, path: &str) -> Result<(), Failure> {
    let keys = all(client, path, "keys")?;
    if client.json {
        return lines(&keys);
    }
    table::print(&HEAD, &keys.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}

fn row(key: &Value) -> Vec<String> {
    let scopes: Vec<_> = key["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    vec![
        text(key, "keyId"),
        text(key, "status"),
        scopes.join(","),
        time(key, "createdAt"),
        time(key, "expiresAt"),
        text(key, "name"),
    ]
}
