// A vector of plain data that lives on the stack while it is small. Nothing else is known here.
#ifndef RADIXRT_SMALL_VECTOR_H
#define RADIXRT_SMALL_VECTOR_H

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

namespace radixrt {

template <class T, size_t N = 16>
class SmallVector {
    static_assert(std::is_trivially_copyable<T>::value, "moved with memcpy");

  public:
    SmallVector() : data_(reinterpret_cast<T *>(inline_)), size_(0), capacity_(N) {}
    ~SmallVector() {
        if (!is_inline()) std::free(data_);
    }
    SmallVector(const SmallVector &) = delete;
    SmallVector &operator=(const SmallVector &) = delete;

    T *begin() { return data_; }
    T *end() { return data_ + size_; }
    const T *begin() const { return data_; }
    const T *end() const { return data_ + size_; }
    T *data() { return data_; }
    const T *data() const { return data_; }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T &operator[](size_t i) { return data_[i]; }
    const T &operator[](size_t i) const { return data_[i]; }
    T &back() { return data_[size_ - 1]; }
    void pop_back() { --size_; }
    void clear() { size_ = 0; }
    void resize(size_t size) {  // new items are not initialised
        reserve(size);
        size_ = size;
    }
    void push_back(T item) {
        if (size_ == capacity_) reserve(2 * capacity_);
        data_[size_++] = item;
    }
    void erase(size_t at) {
        std::memmove(static_cast<void *>(data_ + at), data_ + at + 1, (size_ - at - 1) * sizeof(T));
        --size_;
    }
    // The items must lie outside of this vector.
    void append(const T *items, size_t count) {
        reserve(size_ + count);
        if (count) std::memcpy(static_cast<void *>(data_ + size_), items, count * sizeof(T));
        size_ += count;
    }
    void reserve(size_t wanted) {
        if (wanted <= capacity_) return;
        const size_t capacity = std::max(wanted, 2 * capacity_);
        T *fresh = static_cast<T *>(std::malloc(capacity * sizeof(T)));
        if (!fresh) throw std::bad_alloc();
        std::memcpy(static_cast<void *>(fresh), data_, size_ * sizeof(T));
        if (!is_inline()) std::free(data_);
        data_ = fresh;
        capacity_ = capacity;
    }

  private:
    bool is_inline() const { return data_ == reinterpret_cast<const T *>(inline_); }

    T *data_;
    size_t size_, capacity_;
    alignas(T) unsigned char inline_[N * sizeof(T)];
};

}  // namespace radixrt

#endif
