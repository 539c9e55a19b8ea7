// The sampler's sweep in plain C++17: what the compiled Python is measured against.
//
//     c++ -O3 -march=native -std=c++17 reference.cpp -o reference
//     ./reference PROBLEM BURN_IN SWEEPS REPEATS SEED
//
// The same algorithm as core/sweep_kernels.py with a fixed delta, for histograms of words: bonds on edges within clusters, a
// union-find forest, the words of a spin cluster gathered, every cluster and a new one weighed with tables of log Gamma,
// one drawn, the log posterior kept step by step, the best state kept, and for every edge the sweeps in which its ends
// were together. PROBLEM is the file that reference.py writes: a header of eight 64-bit integers, then the arrays.
//
// Prints one line of JSON: the fastest of REPEATS times SWEEPS sweeps by a steady clock and by processor time, and means over all of them.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Chris Doty-Humphrey's SFC64, the generator that the Python side uses too.
class Generator {
 public:
  explicit Generator(uint64_t seed) : a_(seed), b_(seed), c_(seed), counter_(1) {
    for (int i = 0; i < 12; ++i) next();
  }
  double uniform() { return static_cast<double>(next() >> 11) * (1.0 / 9007199254740992.0); }

 private:
  uint64_t next() {
    const uint64_t result = a_ + b_ + counter_++;
    a_ = b_ ^ (b_ >> 11);
    b_ = c_ + (c_ << 3);
    c_ = ((c_ << 24) | (c_ >> 40)) + result;
    return result;
  }
  uint64_t a_, b_, c_, counter_;
};

struct Problem {
  int64_t n, edges, words;
  std::vector<int64_t> site_start, start;
  std::vector<uint64_t> table_start;
  std::vector<uint32_t> word, times;
  std::vector<double> table, beta, strength, log_v, log_w;
  std::vector<int32_t> neighbour, edge, left, right, labels;
};

template <typename T>
void read_into(std::ifstream& file, std::vector<T>& to, int64_t count) {
  to.resize(static_cast<size_t>(count));
  file.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(sizeof(T) * to.size()));
}

Problem read_problem(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<int64_t> head;
  read_into(file, head, 8);
  Problem p;
  p.n = head[0], p.edges = head[1], p.words = head[2];
  const int64_t nonzero = head[3], entries = head[4];
  read_into(file, p.site_start, p.n + 1);
  read_into(file, p.start, p.n + 1);
  read_into(file, p.table_start, p.words);
  read_into(file, p.table, entries);
  read_into(file, p.beta, p.edges);
  read_into(file, p.strength, p.edges);
  read_into(file, p.log_v, p.n + 1);
  read_into(file, p.log_w, p.n + 1);
  read_into(file, p.word, nonzero);
  read_into(file, p.times, nonzero);
  read_into(file, p.neighbour, 2 * p.edges);
  read_into(file, p.edge, 2 * p.edges);
  read_into(file, p.left, p.edges);
  read_into(file, p.right, p.edges);
  read_into(file, p.labels, p.n);
  if (!file) {
    std::fprintf(stderr, "%s is not a problem as reference.py writes it\n", path);
    std::exit(2);
  }
  return p;
}

class Chain {
 public:
  Chain(const Problem& p, uint64_t seed) : p_(p), rng_(seed), labels_(p.labels), best_(p.labels) {
    const auto n = static_cast<size_t>(p.n);
    chance_.resize(static_cast<size_t>(p.edges));
    for (size_t e = 0; e < chance_.size(); ++e) chance_[e] = -std::expm1(-p.strength[e]);
    together_.assign(chance_.size(), 0);
    parent_.resize(n), head_.resize(n), next_.resize(n);
    group_word_.resize(static_cast<size_t>(p.words));
    group_count_.assign(static_cast<size_t>(p.words), 0);
    used_ = *std::max_element(labels_.begin(), labels_.end()) + 1;
    make_room(2 * used_ + 16);
    for (size_t i = 0; i < n; ++i) {
      const int32_t k = labels_[i];
      if (size_[k]++ == 0) ++clusters_;
      for (int64_t t = p.site_start[i]; t < p.site_start[i + 1]; ++t) words_[p.word[t] * room_ + k] += p.times[t];
    }
    value_ = log_posterior();
    highest_ = value_;
  }

  void sweep() {
    if (used_ > 2 * clusters_ + 4) compact();
    bond();
    for (int64_t root = 0; root < p_.n; ++root)
      if (parent_[root] == root) visit(static_cast<int32_t>(root));
    if (value_ > highest_) {
      highest_ = value_;
      best_ = labels_;
    }
    const int32_t* __restrict left = p_.left.data();
    const int32_t* __restrict right = p_.right.data();
    const int32_t* __restrict labels = labels_.data();
    int64_t* __restrict together = together_.data();
    for (int64_t e = 0; e < p_.edges; ++e) together[e] += labels[left[e]] == labels[right[e]];
  }

  double value() const { return value_; }
  double highest() const { return highest_; }
  int64_t clusters() const { return clusters_; }
  double together() const {
    double sum = 0.0;
    for (int64_t count : together_) sum += static_cast<double>(count);
    return sum;
  }

  // From the labels alone: the check of the value that is kept step by step.
  double log_posterior() const {
    double result = p_.log_v[clusters_];
    for (int64_t k = 0; k < used_; ++k) {
      if (size_[k] == 0) continue;
      result += p_.log_w[size_[k]];
      for (int64_t d = 0; d < p_.words; ++d) {
        const double* f = p_.table.data() + p_.table_start[d];
        result += f[words_[d * room_ + k]] - f[0];
      }
    }
    for (int64_t e = 0; e < p_.edges; ++e)
      if (labels_[p_.left[e]] == labels_[p_.right[e]]) result += p_.beta[e];
    return result;
  }

 private:
  // Counts lie word by word, a column for each cluster; a free column is all zeros.
  void make_room(int64_t room) {
    std::vector<uint32_t> wider(static_cast<size_t>(p_.words * room), 0);
    for (int64_t d = 0; d < p_.words; ++d)
      for (int64_t k = 0; k < room_; ++k) wider[d * room + k] = words_[d * room_ + k];
    words_.swap(wider);
    room_ = room;
    size_.resize(static_cast<size_t>(room), 0);
    score_.resize(static_cast<size_t>(room)), weight_.resize(static_cast<size_t>(room));
    pull_.resize(static_cast<size_t>(room)), full_.resize(static_cast<size_t>(room));
  }

  void compact() {
    std::vector<int32_t> to(static_cast<size_t>(used_), 0);
    int32_t count = 0;
    for (int64_t k = 0; k < used_; ++k) {
      if (size_[k] == 0) continue;
      to[k] = count;
      size_[count] = size_[k];
      for (int64_t d = 0; d < p_.words; ++d) words_[d * room_ + count] = words_[d * room_ + k];
      ++count;
    }
    for (int64_t k = count; k < used_; ++k) {
      size_[k] = 0;
      for (int64_t d = 0; d < p_.words; ++d) words_[d * room_ + k] = 0;
    }
    used_ = count;
    for (int32_t& k : labels_) k = to[k];
  }

  int32_t find(int32_t i) {
    while (parent_[i] != i) {
      parent_[i] = parent_[parent_[i]];
      i = parent_[i];
    }
    return i;
  }

  // The root of a spin cluster is its smallest site.
  void bond() {
    for (int64_t i = 0; i < p_.n; ++i) {
      parent_[i] = static_cast<int32_t>(i);
      head_[i] = -1;
    }
    for (int64_t e = 0; e < p_.edges; ++e) {
      const int32_t i = p_.left[e], j = p_.right[e];
      if (chance_[e] > 0.0 && labels_[i] == labels_[j] && rng_.uniform() < chance_[e]) {
        const int32_t a = find(i), b = find(j);
        parent_[std::max(a, b)] = std::min(a, b);
      }
    }
    for (auto i = static_cast<int32_t>(p_.n - 1); i >= 0; --i) {
      const int32_t root = find(i);
      parent_[i] = root;
      next_[i] = head_[root];
      head_[root] = i;
    }
  }

  void visit(int32_t root) {
    if (used_ == room_) make_room(2 * room_);
    const int64_t slots = used_ + 1;
    int64_t* __restrict size = size_.data();
    double* __restrict score = score_.data();
    double* __restrict pull = pull_.data();
    double* __restrict full = full_.data();
    uint32_t* __restrict words = words_.data();
    uint32_t* __restrict group_word = group_word_.data();
    uint32_t* __restrict group_count = group_count_.data();
    const double* __restrict table = p_.table.data();

    // Take the group out of its cluster.
    std::fill(pull, pull + slots, 0.0);
    std::fill(full, full + slots, 0.0);
    int64_t members = 0, length = 0;
    for (int32_t i = root; i >= 0; i = next_[i]) {
      ++members;
      for (int64_t t = p_.site_start[i]; t < p_.site_start[i + 1]; ++t) {
        const uint32_t d = p_.word[t];
        if (group_count[d] == 0) group_word[length++] = d;
        group_count[d] += p_.times[t];
      }
      for (int64_t t = p_.start[i]; t < p_.start[i + 1]; ++t) {
        const int32_t j = p_.neighbour[t];
        if (parent_[j] == root) continue;
        const int32_t e = p_.edge[t];
        pull[labels_[j]] += p_.beta[e] - p_.strength[e];
        full[labels_[j]] += p_.beta[e];
      }
    }
    const int32_t old = labels_[root];
    const int64_t rest = size[old] - members;
    size[old] = rest;
    for (int64_t t = 0; t < length; ++t) words[group_word[t] * room_ + old] -= group_count[group_word[t]];

    // Weigh every cluster and a new one.
    const int64_t others = rest > 0 ? clusters_ : clusters_ - 1;
    int64_t fresh = -1;
    for (int64_t k = 0; k < slots; ++k) {
      const int64_t m = size[k];
      if (m > 0) {
        score[k] = p_.log_v[others] + p_.log_w[m + members] - p_.log_w[m] + pull[k];
      } else if (fresh < 0) {
        fresh = k;
        score[k] = p_.log_v[others + 1] + p_.log_w[members];
      } else {
        score[k] = kNever;
      }
    }
    for (int64_t t = 0; t < length; ++t) {
      const uint32_t d = group_word[t], count = group_count[d];
      const double* __restrict f = table + p_.table_start[d];
      const double* __restrict g = f + count;
      const uint32_t* __restrict row = words + d * room_;
      for (int64_t k = 0; k < slots; ++k) score[k] += g[row[k]] - f[row[k]];
    }

    const int64_t chosen = draw(slots);
    const int64_t back = rest > 0 ? old : fresh;
    if (chosen != back) value_ += (score[chosen] - pull[chosen] + full[chosen]) - (score[back] - pull[back] + full[back]);
    clusters_ = others + (chosen == fresh ? 1 : 0);
    if (chosen == used_) ++used_;

    // Put it into the one that was drawn.
    size[chosen] += members;
    for (int64_t t = 0; t < length; ++t) {
      words[group_word[t] * room_ + chosen] += group_count[group_word[t]];
      group_count[group_word[t]] = 0;
    }
    if (chosen != old)
      for (int32_t i = root; i >= 0; i = next_[i]) labels_[i] = static_cast<int32_t>(chosen);
  }

  int64_t draw(int64_t slots) {
    const double* __restrict score = score_.data();
    double* __restrict weight = weight_.data();
    double top = kNever, total = 0.0;
    for (int64_t k = 0; k < slots; ++k) top = std::max(top, score[k]);
    for (int64_t k = 0; k < slots; ++k) {
      weight[k] = std::exp(score[k] - top);
      total += weight[k];
    }
    const double target = rng_.uniform() * total;
    double running = 0.0;
    int64_t chosen = -1;
    for (int64_t k = 0; k < slots; ++k) {
      if (weight[k] > 0.0) {
        chosen = k;
        running += weight[k];
        if (running > target) break;
      }
    }
    return chosen;
  }

  const Problem& p_;
  Generator rng_;
  std::vector<int32_t> labels_, best_, parent_, head_, next_;
  std::vector<double> chance_, score_, weight_, pull_, full_;
  std::vector<int64_t> together_, size_;
  std::vector<uint32_t> words_, group_word_, group_count_;
  int64_t used_ = 0, clusters_ = 0, room_ = 0;
  double value_ = 0.0, highest_ = 0.0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s PROBLEM BURN_IN SWEEPS REPEATS SEED\n", argv[0]);
    return 2;
  }
  const Problem problem = read_problem(argv[1]);
  const long burn_in = std::atol(argv[2]), sweeps = std::atol(argv[3]), repeats = std::atol(argv[4]);
  Chain chain(problem, std::strtoull(argv[5], nullptr, 10));
  for (long t = 0; t < burn_in; ++t) chain.sweep();
  double fastest = 0.0, fastest_cpu = 0.0, value = 0.0, clusters = 0.0;
  for (long r = 0; r < repeats; ++r) {
    const auto began = std::chrono::steady_clock::now();
    const std::clock_t cpu_began = std::clock();
    for (long t = 0; t < sweeps; ++t) {
      chain.sweep();
      value += chain.value();
      clusters += static_cast<double>(chain.clusters());
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    const double cpu_took = static_cast<double>(std::clock() - cpu_began) / CLOCKS_PER_SEC;
    fastest = std::max(fastest, static_cast<double>(sweeps) / took.count());
    if (cpu_took > 0.0) fastest_cpu = std::max(fastest_cpu, static_cast<double>(sweeps) / cpu_took);
  }
  const double all = static_cast<double>(sweeps) * static_cast<double>(repeats);
  std::printf("{\"sweeps_per_second\": %.6g, \"sweeps_per_cpu_second\": %.6g, ", fastest, fastest_cpu);
  std::printf("\"mean_clusters\": %.9g, \"mean_log_posterior\": %.17g, ", clusters / all, value / all);
  std::printf("\"clusters\": %lld, \"log_posterior\": %.17g, \"recounted\": %.17g, \"best\": %.17g, \"together\": %.9g}\n",
              static_cast<long long>(chain.clusters()), chain.value(), chain.log_posterior(), chain.highest(),
              chain.together());
  return 0;
}
