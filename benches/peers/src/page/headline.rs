//! [`sentences`]: what the READMEs say of a run.

use ratelimit_runtime::Algorithm;

use crate::parts::callers::{CELLS, ZSETS};
use crate::parts::prefetch::Prefetch;
use crate::parts::throughput::Throughput;
use crate::peer::Kind;
use crate::work::{DISTINCT, HOT, Keys};

/// A line in English and one in Chinese; nothing where a side is missing.
pub fn sentences(throughput: &Throughput, prefetch: &Prefetch) -> String {
    let sliding = Kind::OnRedis(Algorithm::SlidingWindow);
    let rate = |kind, keys, callers| {
        throughput
            .of(kind, keys, callers)
            .map_or(f64::NAN, |of| of.per_second)
    };
    // Each peer in the faster of its two settings.
    let against = |peers: [Kind; 2], keys| {
        let [one, other] = peers.map(|peer| rate(peer, keys, 512));
        rate(sliding, keys, 512) / one.max(other)
    };
    let governor = |algorithm| {
        rate(Kind::Governor, DISTINCT, 512) / rate(Kind::InMemory(algorithm), DISTINCT, 512)
    };
    let figures = [
        against(ZSETS, DISTINCT),
        against(CELLS, DISTINCT),
        against(ZSETS, HOT),
        against(CELLS, HOT),
        prefetch.against_by_hand(Kind::Prefetching(Algorithm::SlidingWindow)),
        prefetch.against_by_hand(Kind::Prefetching(Algorithm::TokenBucket)),
        rate(sliding, Keys::Exhausted, 64) / 1e6,
        governor(Algorithm::SlidingWindow),
        governor(Algorithm::LeakyBucket),
    ];
    if figures.iter().any(|figure| !figure.is_finite()) {
        return String::new();
    }
    let [
        zset,
        cell,
        hot_zset,
        hot_cell,
        ahead,
        bucket,
        refused,
        log,
        gcra,
    ] = figures;
    format!(
        "In one run on one machine, Redis included, with 512 callers on distinct keys, the exact \
         window decides {zset:.1} times as often per second as the articles' sorted set in Lua, \
         and {cell:.1} times as often as redis-cell, each with or without `TCP_NODELAY`, whichever \
         is faster; on one key, {hot_zset:.1} and {hot_cell:.1} times; with `prefetch`, \
         {ahead:.1} times as often as the script there, and a token bucket {bucket:.0} times. A \
         process repeats a refusal of Redis {refused:.1} million times per second without asking \
         again. In memory, governor decides {log:.1} times as often as the exact window, and {gcra:.1} times as often as the \
         same algorithm here.\n\
         在同一台机器（包括 Redis）上的同一次运行中，512 个调用方各用不同的键时，精确窗口每秒的判定次数是文章里有序集合 \
         Lua 脚本的 {zset:.1} 倍、redis-cell 的 {cell:.1} 倍（两者都取有无 `TCP_NODELAY` 中较快的一种）；\
         同用一个键时是 {hot_zset:.1} 倍和 {hot_cell:.1} 倍；启用 `prefetch` 时，是脚本的 \
         {ahead:.1} 倍，令牌桶是 {bucket:.0} 倍。Redis 拒绝过的调用再次被拒绝时不再询问 Redis，每秒 \
         {:.0}0 万次。在内存里，governor 每秒的判定次数是这里精确窗口的 {log:.1} 倍、同一算法的 {gcra:.1} 倍。\n",
        refused * 10.0
    )
}
