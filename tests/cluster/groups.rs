//! Stacked rules whose keys are on several nodes.
