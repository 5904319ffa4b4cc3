//! `cadre admin tenants`

use std::io::{self, Write};

use clap::{Args as ClapArgs, Subcommand};
use serde_json::{Value, json};

use super::{
    super::{
        client::{Client, segment},
        failure::Failure,
        table,
    },
    all, lines, text, time,
};

const PATH: &str = "/v1/admin/tenants";

/// List tenants, make one, change one
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List them
    List,
    /// Make one
    Create {
        /// Its name: a-z 0-9 . _ -
        tenant: String,
        /// What people call it
        #[arg(long)]
        title: Option<String>,
    },
    /// Show one
    Show {
        /// Which
        tenant: String,
    },
    /// Refuse all its credentials, within a second everywhere
    Suspend {
        /// Which
        tenant: String,
    },
    /// Let it in again
    Resume {
        /// Which
        tenant: String,
    },
}

/// Does it.
pub fn run(client: &Client, args: Args) -> Result<(), Failure> {
    let of = |tenant: &str| format!("{PATH}/{}", segment(tenant));
    let answer = match args.action.unwrap_or(Action::List) {
        Action::List => return list(client),
        Action::Create { tenant, title } => {
            let body = json!({ "tenantId": tenant, "title": title });
            client.send("POST", PATH, Some(&body))?
        }
        Action::Show { tenant } => client.get(&of(&tenant))?,
        Action::Suspend { tenant } => {
            client.send("PATCH", &of(&tenant), Some(&json!({ "status": "suspended" })))?
        }
        Action::Resume { tenant } => {
            client.send("PATCH", &of(&tenant), Some(&json!({ "status": "active" })))?
        }
    };
    let tenant = &answer["tenant"];
    if client.json {
        return lines(std::slice::from_ref(tenant));
    }
    writeln!(io::stdout(), "tenant {} {}", text(tenant, "tenantId"), text(tenant, "status"))?;
    Ok(())
}

fn list(client: &Client) -> Result<(), Failure> {
    let tenants = all(client, PATH, "tenants")?;
    if client.json {
        return lines(&tenants);
    }
    if tenants.is_empty() {
        eprintln!("cadre: there are no tenants; make one with `cadre admin tenants create NAME`");
        return Ok(());
    }
    let row = |tenant: &Value| {
        vec![
            text(tenant, "tenantId"),
            text(tenant, "status"),
            time(tenant, "createdAt"),
            text(tenant, "title"),
        ]
    };
    table::print(&["TENANT", "STATUS", "CREATED", "TITLE"], &tenants.iter().map(row).collect::<Vec<_>>())?;
    Ok(())
}
