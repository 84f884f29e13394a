//! [`Log`]: the requests that are replayed.

use indexmap::IndexSet;

/// Requests in the order of their times.
#[derive(Default)]
pub(crate) struct Log {
    requests: Vec<Request>,
    keys: IndexSet<Box<str>>,
    /// Where the requests of each file begin.
    files: Vec<usize>,
    /// The number of requests with an earlier time than the line above them.
    pub(crate) out_of_order: usize,
    /// The time of the line above, in the same file.
    last: u64,
}

/// One request. A log has many of them, and far fewer keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// In microseconds since 1970.
    pub(crate) at: u64,
    /// The delay of the replay after `at`, in microseconds.
    pub(crate) after: u64,
    /// Index of the key.
    pub(crate) key: usize,
    pub(crate) cost: u64,
    /// The actual cost if it differs from `cost`, which is the estimate then.
    pub(crate) actual_cost: Option<u64>,
}

impl Log {
    pub(crate) fn push(&mut self, at: u64, key: &str, cost: u64, actual_cost: Option<u64>) {
        let key = self
            .keys
            .get_index_of(key)
            .unwrap_or_else(|| self.keys.insert_full(key.into()).0);
        self.out_of_order += usize::from(at < self.last);
        self.last = at;
        self.requests.push(Request {
            at,
            after: 0,
            key,
            cost,
            actual_cost,
        });
    }

    /// Begins another file: its first request is not out of order.
    pub(crate) fn begin(&mut self) {
        self.last = 0;
        self.files.push(self.requests.len());
    }

    /// Ends a file. If it is a copy of another, such as a compressed one, its requests are
    /// forgotten; `true` then.
    pub(crate) fn end(&mut self) -> bool {
        let from = self.files.last().copied().unwrap_or(0);
        let (before, own) = self.requests.split_at(from);
        let mut others = self.files.windows(2);
        let is_copy = !own.is_empty() && others.any(|file| before[file[0]..file[1]] == *own);
        if is_copy {
            self.requests.truncate(from);
            self.files.pop();
        }
        is_copy
    }

    /// Sorts the requests by time. A log may be slightly out of order, because servers log a
    /// request when it ends, or write several files. Requests with equal times keep their order.
    ///
    /// Times may be whole seconds, and each unit in a sliding window has a microsecond of its own.
    /// The *n*-th of a key in one second follows *n* − 1 microseconds later, and so finds that the
    /// *n*-th of a window before has left.
    pub(crate) fn sort(&mut self) {
        self.requests.sort_by_key(|request| request.at);
        let mut free = vec![0_u64; self.keys.len()];
        for request in &mut self.requests {
            let free = &mut free[request.key];
            // Never a second behind the log, however much it has of one key.
            request.after = free.saturating_sub(request.at).min(999_999);
            // A sliding window admits no more units at once. What is given back takes no room.
            let units = match request.actual_cost {
                Some(0) => 0,
                _ => request.cost.clamp(1, 1_000),
            };
            *free = request.at + request.after + units;
        }
        self.requests
            .sort_by_key(|request| request.at + request.after);
    }

    pub(crate) fn requests(&self) -> &[Request] {
        &self.requests
    }

    pub(crate) fn keys(&self) -> &IndexSet<Box<str>> {
        &self.keys
    }

    /// The earliest and the latest time of a request.
    pub(crate) fn span(&self) -> (u64, u64) {
        let times = || self.requests.iter().map(|request| request.at);
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }
}
