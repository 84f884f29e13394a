//! What is said of all parts together, and where they were measured.

pub mod budgets;
pub mod callers;
pub mod chart;
pub mod curves;
pub mod headline;
pub mod machine;
pub mod printed;
