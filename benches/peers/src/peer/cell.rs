//! The module redis-cell: GCRA as one native command.

use super::articles::Connection;
use crate::Failure;
use crate::server::Server;
use crate::work::Rate;

pub struct Cell {
    connection: Connection,
    rate: Rate,
}

impl Cell {
    pub fn open(server: &Server, connection: Connection, rate: Rate) -> Result<Self, Failure> {
        if !server.has_cell {
            return Err(
                "RATELIMIT_REDIS_CELL does not name the module; scripts/redis-cell.sh builds it"
                    .into(),
            );
        }
        Ok(Self { connection, rate })
    }

    pub async fn admits(&self, user: &str) -> Result<bool, Failure> {
        let mut command = redis::cmd("CL.THROTTLE");
        // It admits one more than the burst that it is told.
        command
            .arg(format!("rate:{user}"))
            .arg(self.rate.max - 1)
            .arg(self.rate.max)
            .arg(self.rate.window.as_secs())
            .arg(1);
        let (refused, ..): (u8, i64, i64, i64, i64) = self.connection.send(&command).await?;
        Ok(refused == 0)
    }
}
