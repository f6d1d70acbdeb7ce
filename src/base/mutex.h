// SPDX-License-Identifier: Apache-2.0
// A mutex whose guarded members clang can check (-Wthread-safety), and the condition variable that goes with it.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define ES_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define ES_THREAD_ATTRIBUTE(x)
#endif
#define ES_GUARDED_BY(mutex) ES_THREAD_ATTRIBUTE(guarded_by(mutex))             // touched only while `mutex` is held
#define ES_REQUIRES(...) ES_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))  // the caller holds it
#define ES_EXCLUDES(...) ES_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))       // the caller does not hold it

namespace estream {

class ES_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() ES_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() ES_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for one scope.
class ES_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ES_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() ES_THREAD_ATTRIBUTE(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Waits for a notification, holding `mutex` again on return; may return without one, so wait in a loop.
  void Wait(Mutex& mutex) ES_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace estream
